//! A line and what the session knows, to where it goes and why. Pure: no I/O, no clock, nothing is ever run to find out.
