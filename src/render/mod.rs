//! Markdown and other text to styled lines; the sanitiser. Pure: no terminal, no I/O.
