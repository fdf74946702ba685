//! The commands of the fuzzing kit.

pub mod check_process;
pub mod generate_command;
pub mod reduce_command;
