//! The machine: who sits where, what a transfer costs, and the state of every cache line.
//!
//! | file | what |
//! |---|---|
//! | `catalog` | the machines there are, by id and mode, built in or read from a file, or the host itself |
//! | `sheet` | data files, read with their lines |
//! | `schema` | which fields a machine has, in which units |
//! | `model` | a machine as the engine wants it: integers in picoseconds |
//! | `distance` | classes of distance, and who is how far from each cluster |
//! | `directory` | machines of many sockets, whose homes look into memory for who has a line |
//! | `topology` | sockets, dies, clusters, cores, hardware threads; placements |
//! | `line`, `server` | cache lines, and the order in which requests on one are served |
//! | `buffer` | store buffers |
//! | `host` | the machine `this` |

pub(crate) mod buffer;
pub mod catalog;
pub(crate) mod directory;
pub(crate) mod distance;
pub mod host;
pub(crate) mod line;
pub mod model;
mod schema;
pub(crate) mod server;
pub mod sheet;
pub mod topology;
