//! Tests of the whole planner.
