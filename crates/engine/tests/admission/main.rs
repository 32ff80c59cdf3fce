//! The admission server, asked by a real API server.

mod cert_manager;
mod certificates;
mod load;
mod place;
mod reviews;
mod rights;
mod wire;
