//! Model endpoints: request, stream, errors.
