//! One question from asking to answer: joins turn, model and store; never prints.
