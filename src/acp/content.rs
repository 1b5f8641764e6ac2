//! A prompt's blocks → the question: text remains text, a link to a file becomes an `@`, which attaches only files that a model
//! may read, and the text of a resource goes before the question as an attachment of its person.

use std::path::{Path, PathBuf};

use super::wire::{Block, Resource};
use crate::app::Runtime;
use crate::base::{base64, percent};
use crate::proto::Image;
use crate::rpc::{INVALID_PARAMS, RpcError};

/// Bytes of one resource, and of all of a prompt.
const RESOURCE_BYTES_MAX: usize = 256 * 1024;
const ALL_BYTES_MAX: usize = 1024 * 1024;
/// Limits on one picture, in bytes, and on the pictures of a prompt: every provider accepts these.
const IMAGE_BYTES_MAX: usize = 5 << 20;
const IMAGES_MAX: usize = 5;
/// Bytes of the text of a prompt.
const TEXT_BYTES_MAX: usize = 1024 * 1024;

/// Makes a question of a prompt to a session with this workspace; returns also the notices for the person.
///
/// # Errors
/// A block that can't be used, or a prompt that is too long or empty.
pub(super) fn question(
    runtime: &mut Runtime,
    workspace: &Path,
    blocks: Vec<Block>,
) -> Result<(String, Vec<String>), RpcError> {
    let invalid = |message: &str| RpcError::new(INVALID_PARAMS, message);
    let (mut text, mut notices, mut left) = (String::new(), Vec::new(), ALL_BYTES_MAX);
    let mut images = 0;
    for block in blocks {
        match block {
            Block::Text { text: piece } => text.push_str(&piece),
            Block::Image { data, uri } => {
                images += 1;
                let name = uri.as_deref().map_or_else(|| format!("picture {images}"), short);
                notices.extend(picture(runtime, &name, &data, images));
            }
            Block::Audio {} => return Err(invalid("audio can't be sent: this agent doesn't offer that")),
            Block::ResourceLink { uri, name } => {
                let link = link(&uri, &name, runtime.cwd(), workspace);
                pad(&mut text);
                text.push_str(&link);
                text.push(' ');
            }
            Block::Resource { resource } => {
                let name = short(&resource.uri);
                pad(&mut text);
                text.push_str(&name);
                text.push(' ');
                notices.extend(attach(runtime, resource, &mut left));
            }
        }
    }
    if text.len() > TEXT_BYTES_MAX {
        return Err(invalid(&format!("a prompt takes {} KiB of text at most", TEXT_BYTES_MAX / 1024)));
    }
    if text.trim().is_empty() && images > 0 {
        text.push_str("Look at the picture.");
    }
    if text.trim().is_empty() {
        return Err(invalid("the prompt is empty"));
    }
    Ok((text.trim_end().to_owned(), notices))
}

/// Separates the following text from the previous one.
fn pad(text: &mut String) {
    if text.chars().last().is_some_and(|last| !last.is_whitespace() && !"([{".contains(last)) {
        text.push(' ');
    }
}

/// A link as part of a question: `@PATH` for a file of the workspace, relative to the working directory, so that it is attached
/// like one that a person names; otherwise its name and address.
fn link(uri: &str, name: &str, cwd: &Path, workspace: &Path) -> String {
    let below = file_path(uri).and_then(|path| from_here(&path, cwd, workspace));
    match below.as_deref().and_then(Path::to_str) {
        Some(path) if !path.is_empty() && !path.contains('"') => format!("@\"{path}\""),
        _ if name.is_empty() => uri.to_owned(),
        _ => format!("{name} ({uri})"),
    }
}

/// The path of a file of the workspace from the working directory, which is in it. The client may know both by links.
fn from_here(path: &Path, cwd: &Path, workspace: &Path) -> Option<PathBuf> {
    let below = |path: &Path| path.strip_prefix(cwd).map(Path::to_owned).ok();
    let real = |path: &Path| path.canonicalize().ok();
    // A file that is only in a buffer still has a directory.
    let place = || real(path).or_else(|| Some(real(path.parent()?)?.join(path.file_name()?)));
    let around = |path: &Path| {
        let rest = path.strip_prefix(workspace).ok()?;
        let up = cwd.strip_prefix(workspace).ok()?.components().map(|_| "..");
        Some(up.collect::<PathBuf>().join(rest))
    };
    below(path).or_else(|| place().and_then(|path| below(&path).or_else(|| around(&path))))
}

/// Attaches the text of a resource; returns a notice for the person if some of it wasn't attached.
fn attach(runtime: &mut Runtime, Resource { uri, text }: Resource, left: &mut usize) -> Option<String> {
    let name = short(&uri);
    let refused = |why: &str| Some(format!("not attached: {name}: {why}"));
    let Some(mut text) = text else { return refused("it is no text") };
    if let Some(Err(why)) = file_path(&uri).map(|path| runtime.may_bring(&path)) {
        return refused(&why);
    }
    let most = RESOURCE_BYTES_MAX.min(*left);
    let whole = text.len();
    if most == 0 {
        return refused(&format!("a prompt takes {} KiB at most", ALL_BYTES_MAX / 1024));
    }
    if whole > most {
        text.truncate(text.floor_char_boundary(most));
        text.push_str("\n(the rest is left out)");
    }
    *left = left.saturating_sub(text.len());
    let place = file_path(&uri).map_or_else(|| uri.clone(), |path| path.display().to_string());
    runtime.bring(&place, &text);
    let cut = || format!("attached {name}, the first {} of {} KiB", most / 1024, whole.div_ceil(1024));
    (whole > most).then(cut)
}

/// Attaches the picture with a number in its prompt; returns a notice for the person if it was refused.
fn picture(runtime: &mut Runtime, name: &str, data: &str, number: usize) -> Option<String> {
    let refused = |why: &str| Some(format!("not attached: {name}: {why}"));
    if number > IMAGES_MAX {
        return refused(&format!("a prompt takes {IMAGES_MAX} pictures"));
    }
    let Some(bytes) = base64::decode(data) else { return refused("it is no Base64") };
    if bytes.len() > IMAGE_BYTES_MAX {
        return refused(&format!("a picture takes {} MiB at most", IMAGE_BYTES_MAX >> 20));
    }
    match Image::of(name, bytes) {
        Some(image) => {
            runtime.bring_image(image);
            None
        }
        None => refused("it is none of PNG, JPEG, GIF and WebP"),
    }
}

/// The path of an address of a file on this machine.
fn file_path(uri: &str) -> Option<PathBuf> {
    let path = uri.strip_prefix("file://")?;
    let path = path.strip_prefix("localhost").unwrap_or(path);
    let path = path.split(['#', '?']).next().unwrap_or(path);
    // A name with a bare `%`, which some editors don't encode, is meant as it is.
    let is_code = |rest: &str| rest.len() > 1 && rest.bytes().take(2).all(|byte| byte.is_ascii_hexdigit());
    let decoded = if path.split('%').skip(1).all(is_code) { percent::decode(path)? } else { path.to_owned() };
    decoded.starts_with('/').then(|| PathBuf::from(decoded))
}

/// The last part of an address.
fn short(uri: &str) -> String {
    let path = file_path(uri);
    let name = path.as_deref().and_then(Path::file_name).and_then(|name| name.to_str());
    name.unwrap_or(uri).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_to_a_file_here_is_an_at_and_any_other_is_text() {
        let cwd = Path::new("/srv/my project");
        for (uri, name, expected) in [
            ("file:///srv/my%20project/src/a.rs", "a.rs", "@\"src/a.rs\""),
            ("file:///srv/my%20project/src/a.rs#L3", "a.rs", "@\"src/a.rs\""),
            ("file:///etc/passwd", "passwd", "passwd (file:///etc/passwd)"),
            ("file:///srv/my%20project/../x", "x", "@\"../x\""),
            ("https://example.org/x", "", "https://example.org/x"),
            ("file://elsewhere/x", "x", "x (file://elsewhere/x)"),
        ] {
            assert_eq!(link(uri, name, cwd, cwd), expected, "{uri}");
        }
        assert_eq!(file_path("file:///a%ff"), None, "no UTF-8");
        assert_eq!(file_path("file:///50%.txt"), Some(PathBuf::from("/50%.txt")));
        assert_eq!(short("file:///a/b%20c.txt"), "b c.txt");
    }

    #[test]
    fn a_link_may_name_a_file_of_the_workspace_by_a_link_and_above_the_working_directory() {
        let top = tempfile::tempdir().expect("a directory");
        let top = top.path().canonicalize().expect("a path");
        let (real, by_link) = (top.join("real"), top.join("link"));
        std::fs::create_dir_all(real.join("sub/deep")).expect("a directory");
        std::os::unix::fs::symlink(&real, &by_link).expect("a link");
        for name in ["real/top.txt", "real/sub/a.txt", "outside.txt"] {
            std::fs::write(top.join(name), "").expect("a file");
        }
        let cwd = real.join("sub");
        let shown = |path: &Path| link(&format!("file://{}", path.display()), "it", &cwd, &real);
        assert_eq!(shown(&by_link.join("sub/a.txt")), "@\"a.txt\"");
        assert_eq!(shown(&by_link.join("sub/deep/new.txt")), "@\"deep/new.txt\"", "it is only in a buffer");
        assert_eq!(shown(&by_link.join("top.txt")), "@\"../top.txt\"");
        assert_eq!(shown(&real.join("top.txt")), "@\"../top.txt\"");
        assert!(shown(&top.join("outside.txt")).starts_with("it (file://"));
    }
}
