//! The behaviour of the original, case by case, with its numbers. Where it says otherwise than the law, the law wins.
//!
//! Missing numbers are not the planner's: 8, 9, 13, 23, 24 and 59 are about failing calls, 62, 63 and 65 to 67 about other
//! modes, 68 to 70 about the connection. The batches of 12 are made where plans are carried out.

mod claims;
mod cordon;
mod ranking;
mod revisions;
mod scaling;
mod status;
mod updates;
