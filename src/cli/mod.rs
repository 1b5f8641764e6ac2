//! Command-line arguments and subcommands.
