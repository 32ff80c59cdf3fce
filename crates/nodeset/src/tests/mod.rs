//! Tests of the whole planner: cases with names, properties over random worlds, and bugs that those must find.

mod bad_input;
mod cases;
mod chaos;
mod dice;
mod execute;
mod lines;
mod oracle;
mod properties;
mod scene;
mod world;
