//! Slurm's configuration files: typed lines that print themselves, a reader for the same syntax, and a check.

mod reader;
mod text;
mod value;

pub use reader::{
    Document, Line, MAX_BYTES, MAX_DEPTH, MAX_FILES, NoIncludes, Pair, Place, Resolve, SyntaxError, read,
};
pub use text::{Comment, ConfFile, IncludePath, Pairs};
pub use value::{Key, Name, Problem, Value, ValueError};
#[doc(hidden)]
pub use value::{is_key, is_value};
