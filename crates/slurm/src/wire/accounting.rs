//! The accounting, as the REST API writes it.

use serde::Deserialize;

use super::{Csv, Record, Switch, Text, list};
use crate::{
    Account, AccountedCluster, AccountedJob, Association, Interner, JobId, JobState, Number, Qos, User,
};

impl Record for User {
    const LIST: &'static str = "users";

    fn decode(json: &[u8], _: &mut Interner) -> Result<Self, serde_json::Error> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Wire<'a> {
            #[serde(borrow)]
            name: Text<'a>,
            #[serde(borrow)]
            administrator_level: Csv<'a>,
            #[serde(borrow)]
            default: Defaults<'a>,
        }
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Defaults<'a> {
            #[serde(borrow)]
            account: Text<'a>,
        }
        let wire: Wire<'_> = list::read(json)?;
        Ok(Self {
            name: wire.name.into(),
            admin_level: wire.administrator_level.to_string(),
            default_account: wire.default.account.into(),
        })
    }
}

impl Record for Account {
    const LIST: &'static str = "accounts";

    fn decode(json: &[u8], _: &mut Interner) -> Result<Self, serde_json::Error> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Wire<'a> {
            #[serde(borrow)]
            name: Text<'a>,
            #[serde(borrow)]
            description: Text<'a>,
            #[serde(borrow)]
            organization: Text<'a>,
        }
        let wire: Wire<'_> = list::read(json)?;
        Ok(Self {
            name: wire.name.into(),
            description: wire.description.into(),
            organization: wire.organization.into(),
        })
    }
}

impl Record for Association {
    const LIST: &'static str = "associations";

    fn decode(json: &[u8], _: &mut Interner) -> Result<Self, serde_json::Error> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Wire<'a> {
            #[serde(borrow)]
            cluster: Text<'a>,
            #[serde(borrow)]
            account: Text<'a>,
            #[serde(borrow)]
            user: Text<'a>,
            #[serde(borrow)]
            partition: Text<'a>,
            #[serde(borrow)]
            parent_account: Text<'a>,
            is_default: Switch,
            shares_raw: Number,
            #[serde(borrow)]
            qos: Csv<'a>,
        }
        let wire: Wire<'_> = list::read(json)?;
        Ok(Self {
            cluster: wire.cluster.into(),
            account: wire.account.into(),
            user: wire.user.into(),
            partition: wire.partition.into(),
            parent_account: wire.parent_account.into(),
            is_default: wire.is_default.0.unwrap_or(false),
            shares: wire.shares_raw.or_zero(),
            qos: wire.qos.to_string(),
        })
    }
}

impl Record for Qos {
    const LIST: &'static str = "qos";

    fn decode(json: &[u8], _: &mut Interner) -> Result<Self, serde_json::Error> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Wire<'a> {
            #[serde(borrow)]
            name: Text<'a>,
            #[serde(borrow)]
            description: Text<'a>,
            id: Number,
            priority: Number,
        }
        let wire: Wire<'_> = list::read(json)?;
        Ok(Self {
            name: wire.name.into(),
            description: wire.description.into(),
            id: wire.id.or_zero(),
            priority: wire.priority,
        })
    }
}

impl Record for AccountedCluster {
    const LIST: &'static str = "clusters";

    fn decode(json: &[u8], _: &mut Interner) -> Result<Self, serde_json::Error> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Wire<'a> {
            #[serde(borrow)]
            name: Text<'a>,
            #[serde(borrow)]
            nodes: Text<'a>,
            #[serde(borrow)]
            controller: Controller<'a>,
        }
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Controller<'a> {
            #[serde(borrow)]
            host: Text<'a>,
            port: Number,
        }
        let wire: Wire<'_> = list::read(json)?;
        Ok(Self {
            name: wire.name.into(),
            nodes: wire.nodes.into(),
            controller_host: wire.controller.host.into(),
            controller_port: wire.controller.port.or_zero(),
        })
    }
}

impl Record for AccountedJob {
    const LIST: &'static str = "jobs";

    fn decode(json: &[u8], _: &mut Interner) -> Result<Self, serde_json::Error> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Wire<'a> {
            job_id: Number,
            #[serde(borrow)]
            cluster: Text<'a>,
            #[serde(borrow)]
            name: Text<'a>,
            state: State,
            #[serde(borrow)]
            user: Text<'a>,
            #[serde(borrow)]
            account: Text<'a>,
            #[serde(borrow)]
            partition: Text<'a>,
            #[serde(borrow)]
            nodes: Text<'a>,
            time: Times,
            exit_code: ExitCode,
        }
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct State {
            current: JobState,
        }
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Times {
            submission: Number,
            start: Number,
            end: Number,
        }
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct ExitCode {
            return_code: Number,
        }
        let wire: Wire<'_> = list::read(json)?;
        Ok(Self {
            id: JobId(wire.job_id.or_zero_u32()),
            cluster: wire.cluster.into(),
            name: wire.name.into(),
            state: wire.state.current,
            user: wire.user.into(),
            account: wire.account.into(),
            partition: wire.partition.into(),
            nodes: wire.nodes.into(),
            submit_time: wire.time.submission.or_zero(),
            start_time: wire.time.start.or_zero(),
            end_time: wire.time.end.or_zero(),
            exit_status: wire.exit_code.return_code,
        })
    }
}
