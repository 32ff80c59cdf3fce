//! Schedules as CronJobs have them.

/// The fields: name, least and greatest number, and names for numbers, from the least on.
const FIELDS: [(&str, u32, u32, &[&str]); 5] = [
    ("minute", 0, 59, &[]),
    ("hour", 0, 23, &[]),
    ("day of month", 1, 31, &[]),
    ("month", 1, 12, &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]),
    ("day of week", 0, 6, &["sun", "mon", "tue", "wed", "thu", "fri", "sat"]),
];
const WORDS: &[&str] = &["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];

/// Says what is wrong with a schedule.
pub(super) fn problem(text: &str) -> Option<String> {
    if text.contains("TZ=") {
        return Some(
            "a time zone cannot be part of the schedule; write it in the time zone of the cluster".into(),
        );
    }
    if let Some(time) = text.strip_prefix("@every ") {
        return render::check::duration::go(time).err();
    }
    if text.starts_with('@') {
        let known = WORDS.contains(&text);
        return (!known).then(|| format!("{text:?} is none of {} and @every DURATION", WORDS.join(", ")));
    }
    let parts: Vec<&str> = text.split_whitespace().collect();
    if parts.len() != FIELDS.len() {
        return Some(format!(
            "a schedule has five fields (minute, hour, day of month, month, day of week), and this has {}; write for \
             example \"0 */6 * * *\" for every six hours",
            parts.len()
        ));
    }
    FIELDS
        .iter()
        .zip(parts)
        .find_map(|(field, part)| part.split(',').find_map(|item| item_problem(field, item)))
}

fn item_problem((name, least, most, names): &(&str, u32, u32, &[&str]), item: &str) -> Option<String> {
    let wrong =
        || format!("{name}: {item:?} is no number from {least} to {most}, nor a range, a step or `*`");
    let number = |text: &str| {
        let named = names.iter().position(|known| known.eq_ignore_ascii_case(text));
        let named = named.and_then(|index| u32::try_from(index).ok()).map(|index| least + index);
        named.or_else(|| text.bytes().all(|c| c.is_ascii_digit()).then(|| text.parse().ok()).flatten())
    };
    let (range, step) = item.split_once('/').map_or((item, None), |(range, step)| (range, Some(step)));
    if step.is_some_and(|step| step.parse::<u32>().map_or(true, |step| step == 0)) {
        return Some(format!("{name}: the step of {item:?} is no number from 1 up"));
    }
    if range == "*" || range == "?" {
        return None;
    }
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    let (Some(first), Some(last)) = (number(first), number(last)) else { return Some(wrong()) };
    if first < *least || last > *most {
        return Some(wrong());
    }
    (first > last).then(|| format!("{name}: the range {range} goes down"))
}

#[cfg(test)]
mod tests {
    use super::problem;

    #[test]
    fn schedules_of_cron_are_taken() {
        for text in [
            "0 0 1 1 *",
            "*/10 * * * *",
            "5,10-20/5 0-23 ? JAN-mar Mon",
            "@daily",
            "@every 1h30m",
            " 0  0 * * 0 ",
            "3/15 * * * *",
        ] {
            assert_eq!(problem(text), None, "{text}");
        }
    }

    #[test]
    fn what_kubernetes_refuses_is_told() {
        for (text, told) in [
            ("", "and this has 0"),
            ("* * * *", "and this has 4"),
            ("0 0 0 1 1 *", "and this has 6"),
            ("60 * * * *", "minute: \"60\" is no number from 0 to 59"),
            ("* 24 * * *", "hour: "),
            ("* * 0 * *", "day of month: \"0\""),
            ("* * * 13 *", "month: "),
            ("* * * * 7", "day of week: \"7\" is no number from 0 to 6"),
            ("* * * foo *", "month: \"foo\""),
            ("*/0 * * * *", "step"),
            ("*/x * * * *", "step"),
            ("* * * */jan *", "step"),
            ("20-10 * * * *", "goes down"),
            ("-5 * * * *", "minute: \"-5\""),
            ("@dayly", "@hourly and @every DURATION"),
            ("@every soon", "no duration"),
            ("TZ=UTC 0 0 * * *", "time zone"),
        ] {
            let found = problem(text).unwrap_or_default();
            assert!(found.contains(told), "{text:?}: {found}");
        }
    }
}
