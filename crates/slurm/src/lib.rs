//! Everything Slurm, pure: names, states, configuration text, keys and tokens, REST wire and domain types.
//!
//! No I/O, no clock, no randomness: time and entropy are passed in. Nothing here knows Kubernetes.
