//! Files that a program makes in its private home at paths of the real one that a person let it write, and their way there.
//! Programs may have left links in a private home, so none of its directories is entered through one.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};

use super::scratch::remove_all;

/// Something that a program made in its private home, and its place in the true one.
#[derive(Debug)]
pub struct MadeInHome {
    /// The private directory that has it, and its name there.
    directory: File,
    name: OsString,
    /// The permission bits of a directory; `None` for anything else.
    mode: Option<u32>,
    to: PathBuf,
}

impl MadeInHome {
    /// Finds the file or directory at a path below a directory of ours.
    pub(super) fn find(top: &Path, below: &Path, to: &Path) -> Option<Self> {
        // A link that a program left on the way would lead to the user's own files.
        let directory = below
            .parent()?
            .iter()
            .try_fold(open_directory(top).ok()?, |above, part| open_directory(&in_directory(&above).join(part)).ok())?;
        let name = below.file_name()?.to_owned();
        let data = in_directory(&directory).join(&name).symlink_metadata().ok()?;
        Some(Self { directory, name, mode: data.is_dir().then(|| data.mode() & 0o777), to: to.to_owned() })
    }

    /// Its place in the true home.
    #[must_use]
    pub fn place(&self) -> &Path {
        &self.to
    }

    /// Makes the directories around its place, and if it is a directory, an empty one at its place.
    ///
    /// # Errors
    /// Something is there, or the file system refuses.
    pub fn make_place(&self) -> io::Result<()> {
        if let Some(parent) = self.to.parent() {
            fs::create_dir_all(parent)?;
        }
        match self.mode {
            Some(mode) => DirBuilder::new().mode(mode).create(&self.to),
            None if self.to.symlink_metadata().is_ok() => Err(io::ErrorKind::AlreadyExists.into()),
            None => Ok(()),
        }
    }

    /// Moves it to its place, which was made by [`Self::make_place`]: of a directory all that is in it.
    ///
    /// # Errors
    /// Something is there, the place is on another file system, or the file system refuses.
    pub fn move_to_place(&self) -> io::Result<()> {
        let from = in_directory(&self.directory).join(&self.name);
        if self.mode.is_none() {
            return move_new(&from, &self.to);
        }
        let directory = open_directory(&from)?;
        let place = open_directory(&self.to)?;
        for entry in fs::read_dir(in_directory(&directory))? {
            let name = entry?.file_name();
            move_new(&in_directory(&directory).join(&name), &in_directory(&place).join(&name))?;
        }
        Ok(())
    }
}

/// Moves a file or directory to a place at which nothing is.
fn move_new(from: &Path, to: &Path) -> io::Result<()> {
    Ok(renameat2(AT_FDCWD, from, AT_FDCWD, to, RenameFlags::RENAME_NOREPLACE)?)
}

/// Makes room for a path below one of our directories: the directories in `around` are made, and anything at the path is removed.
pub(super) fn make_room(top: &Path, around: &Path, below: &Path) -> io::Result<()> {
    let mut above = open_directory(top)?;
    let needed = around.iter().count();
    for (at, part) in below.parent().into_iter().flat_map(Path::iter).enumerate() {
        let place = in_directory(&above).join(part);
        above = match open_directory(&place) {
            Ok(directory) => directory,
            Err(error) => {
                if error.kind() != io::ErrorKind::NotFound {
                    fs::remove_file(&place)?;
                }
                if at >= needed {
                    return Ok(());
                }
                DirBuilder::new().mode(0o700).create(&place)?;
                open_directory(&place)?
            }
        };
    }
    let place = in_directory(&above).join(below.file_name().unwrap_or_default());
    match place.symlink_metadata() {
        Ok(data) if data.is_dir() => remove_all(&place),
        Ok(_) => fs::remove_file(&place)?,
        Err(_) => {}
    }
    Ok(())
}

fn open_directory(path: &Path) -> io::Result<File> {
    File::options().read(true).custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW).open(path)
}

/// A path that leads into an open directory, wherever it is now.
fn in_directory(directory: &File) -> PathBuf {
    Path::new("/proc/self/fd").join(directory.as_raw_fd().to_string())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    /// A directory of ours with a private home, and a true one with a file in `own`.
    fn homes() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let dir = tempfile::tempdir().expect("a directory");
        let (top, home) = (dir.path().join("top"), dir.path().join("ana"));
        for path in [top.join("home"), home.join("own/new")] {
            fs::create_dir_all(path).expect("directories");
        }
        fs::write(home.join("own/new/mine"), "mine").expect("a file");
        (dir, top, home)
    }

    #[test]
    fn a_file_and_the_content_of_a_directory_move_to_places_at_which_nothing_is() {
        let (_dir, top, home) = homes();
        fs::write(top.join("home/a"), "a").expect("a file");
        fs::create_dir_all(top.join("home/d/e")).expect("directories");
        fs::set_permissions(top.join("home/d"), fs::Permissions::from_mode(0o750)).expect("a mode");
        fs::write(top.join("home/d/e/f"), "f").expect("a file");
        for (below, to) in [("home/a", "x/a"), ("home/d", "d")] {
            let made = MadeInHome::find(&top, Path::new(below), &home.join(to)).expect("it is there");
            made.make_place().expect("a place");
            made.move_to_place().expect("moved");
        }
        let read = |path: &str| fs::read_to_string(home.join(path)).ok();
        assert_eq!((read("x/a"), read("d/e/f")), (Some("a".into()), Some("f".into())));
        assert_eq!(fs::metadata(home.join("d")).expect("it").mode() & 0o777, 0o750);
        assert!(MadeInHome::find(&top, Path::new("home/a"), &home.join("a")).is_none(), "it has left");
        // Files of other programs stay.
        fs::write(top.join("home/a"), "other").expect("a file");
        fs::create_dir(top.join("home/own")).expect("a directory");
        for (below, to) in [("home/a", "x/a"), ("home/own", "own")] {
            let made = MadeInHome::find(&top, Path::new(below), &home.join(to)).expect("it is there");
            made.make_place().expect_err("something is there");
        }
        assert_eq!((read("x/a"), read("own/new/mine")), (Some("a".into()), Some("mine".into())));
    }

    #[test]
    fn a_link_in_the_private_home_leads_to_no_file_of_the_true_one() {
        let (_dir, top, home) = homes();
        let link = || symlink(home.join("own"), top.join("home/l")).expect("a link");
        link();
        let below = Path::new("home/l/new");
        assert!(MadeInHome::find(&top, below, &home.join("l/new")).is_none());
        // A link in place of a directory that the program needs is removed, and so is one in place of what it will make.
        make_room(&top, Path::new("home/l"), below).expect("room");
        assert!(top.join("home/l").symlink_metadata().expect("it is there").is_dir());
        fs::remove_dir(top.join("home/l")).expect("removed");
        link();
        make_room(&top, Path::new("home"), below).expect("room");
        assert!(top.join("home/l").symlink_metadata().is_err());
        link();
        make_room(&top, Path::new("home"), Path::new("home/l")).expect("room");
        assert!(top.join("home/l").symlink_metadata().is_err());
        assert_eq!(fs::read_to_string(home.join("own/new/mine")).ok(), Some("mine".to_owned()));
    }
}
