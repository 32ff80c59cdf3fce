//! The admission server, asked by a real API server.

mod certificates;
mod place;
mod reviews;
mod rights;
mod wire;
