//! Plugins on disk: which are installed, what a person has allowed of each, and how they are installed and removed. A plugin is
//! read once, and what was read is what is shown, hashed and written.

use std::collections::BTreeMap;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::manifest::Manifest;
use crate::base::hash::Hasher;
use crate::files::replace_private;

/// Limits on the files of one plugin: number, depth and total size.
const FILES_MAX: usize = 200;
const DEPTH_MAX: usize = 8;
const BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Limit on plugins that are read.
const PLUGINS_MAX: usize = 100;
/// The file that makes a directory a plugin.
const MANIFEST: &str = "manifest.toml";

/// Reason why a plugin can't be read, installed or removed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {why}", path.display())]
pub struct PluginError {
    /// The place.
    pub path: PathBuf,
    /// The problem, in words.
    pub why: String,
}

/// All of a plugin, in memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Bundle {
    manifest: Manifest,
    /// By path below the plugin's directory: the bytes, and whether it can be run.
    files: BTreeMap<String, (Vec<u8>, bool)>,
}

/// An installed plugin.
#[derive(Clone, Debug, PartialEq)]
pub struct PluginState {
    /// The name of its directory.
    pub name: String,
    /// Its directory.
    pub directory: PathBuf,
    /// Its state.
    pub standing: Standing,
}

/// Standing of a plugin.
#[derive(Clone, Debug, PartialEq)]
pub enum Standing {
    /// A person has allowed it as it is.
    Allowed(Box<Bundle>),
    /// No person has decided about it.
    Unknown(Box<Bundle>),
    /// A person has allowed an earlier version.
    Changed(Box<Bundle>),
    /// Not a plugin, and why.
    Broken(String),
}

/// The record of what a person has allowed.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    sha256: String,
}

/// The installed plugins and the records of which are allowed.
#[derive(Clone, Debug)]
pub struct Plugins {
    directory: PathBuf,
    records: PathBuf,
}

impl Bundle {
    /// Reads a plugin's directory.
    ///
    /// # Errors
    /// It isn't there or isn't a plugin: no manifest, a link or a device in it, a program that is missing, or too large.
    pub fn read(directory: &Path) -> Result<Self, PluginError> {
        let fail = |why: String| PluginError { path: directory.to_owned(), why };
        let mut files = BTreeMap::new();
        let mut left = BYTES_MAX;
        collect(directory, "", 0, &mut files, &mut left).map_err(fail)?;
        let (manifest, _) = files.get(MANIFEST).ok_or_else(|| fail(format!("there is no {MANIFEST}")))?;
        let manifest = std::str::from_utf8(manifest).map_err(|_| fail(format!("{MANIFEST} is no text")))?;
        let manifest = Manifest::parse(manifest).map_err(fail)?;
        for tool in &manifest.tools {
            let program = tool.command[0].strip_prefix("./").unwrap_or(&tool.command[0]);
            match files.get(program) {
                Some((_, true)) => {}
                Some((_, false)) => return Err(fail(format!("{program} can't be run (chmod +x)"))),
                None => return Err(fail(format!("the program {program} isn't there"))),
            }
        }
        Ok(Self { manifest, files })
    }

    /// Returns its manifest.
    #[must_use]
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Its files and their sizes.
    pub fn files(&self) -> impl Iterator<Item = (&str, usize)> {
        self.files.iter().map(|(path, (bytes, _))| (path.as_str(), bytes.len()))
    }

    /// Returns the SHA-256 of the manifest, the programs and all other files, in hexadecimal.
    #[must_use]
    pub fn sha256(&self) -> String {
        let mut hasher = Hasher::new();
        for (path, (bytes, can_run)) in &self.files {
            hasher.update(&(path.len() as u64).to_be_bytes());
            hasher.update(path.as_bytes());
            hasher.update(&[u8::from(*can_run)]);
            hasher.update(&(bytes.len() as u64).to_be_bytes());
            hasher.update(bytes);
        }
        hasher.finish_hex()
    }

    fn write(&self, directory: &Path) -> std::io::Result<()> {
        let make = |path: &Path| DirBuilder::new().recursive(true).mode(0o700).create(path);
        make(directory)?;
        for (path, (bytes, can_run)) in &self.files {
            let path = directory.join(path);
            path.parent().map_or(Ok(()), make)?;
            let mode = if *can_run { 0o700 } else { 0o600 };
            let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
            file.write_all(bytes)?;
            file.sync_all()?;
        }
        Ok(())
    }
}

impl Plugins {
    /// Plugins below a data directory, with their permissions below a state directory.
    #[must_use]
    pub fn new(data: &Path, state: &Path) -> Self {
        Self { directory: data.join("plugins"), records: state.join("plugins") }
    }

    /// Returns the directory that holds the plugins.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the installed plugins, by name.
    #[must_use]
    pub fn all(&self) -> Vec<PluginState> {
        let entries = std::fs::read_dir(&self.directory).into_iter().flatten().flatten().take(PLUGINS_MAX);
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let mut names: Vec<String> = names.filter(|name| !name.starts_with('.')).collect();
        names.sort();
        names.into_iter().map(|name| self.state(name)).collect()
    }

    fn state(&self, name: String) -> PluginState {
        let directory = self.directory.join(&name);
        let standing = match Bundle::read(&directory) {
            Err(error) => Standing::Broken(error.why),
            Ok(bundle) if bundle.manifest.name != name => {
                Standing::Broken(format!("its manifest calls it {}", bundle.manifest.name))
            }
            Ok(bundle) => match self.record(&name) {
                None => Standing::Unknown(Box::new(bundle)),
                Some(record) if record.sha256 == bundle.sha256() => Standing::Allowed(Box::new(bundle)),
                Some(_) => Standing::Changed(Box::new(bundle)),
            },
        };
        PluginState { name, directory, standing }
    }

    fn record(&self, name: &str) -> Option<Record> {
        let text = std::fs::read_to_string(self.record_path(name)).ok()?;
        serde_json::from_str(&text).ok()
    }

    fn record_path(&self, name: &str) -> PathBuf {
        self.records.join(format!("{name}.json"))
    }

    /// Installs a plugin that a person has allowed, in place of one with the same name, and records the permission.
    ///
    /// # Errors
    /// It can't be written; the previous version then stays.
    pub fn install(&self, bundle: &Bundle) -> Result<PathBuf, PluginError> {
        let name = &bundle.manifest.name;
        let target = self.directory.join(name);
        let fail = |error: std::io::Error| PluginError { path: target.clone(), why: error.to_string() };
        let is_there = Bundle::read(&target).is_ok_and(|there| there == *bundle);
        if !is_there {
            let (new, old) = (self.directory.join(format!(".{name}.new")), self.directory.join(format!(".{name}.old")));
            for left in [&new, &old] {
                remove_tree(left).map_err(fail)?;
            }
            bundle.write(&new).map_err(fail)?;
            let has_old = target.symlink_metadata().is_ok();
            if has_old {
                std::fs::rename(&target, &old).map_err(fail)?;
            }
            if let Err(error) = std::fs::rename(&new, &target) {
                if has_old {
                    let _ = std::fs::rename(&old, &target);
                }
                return Err(fail(error));
            }
            remove_tree(&old).map_err(fail)?;
        }
        self.allow(name, bundle)?;
        Ok(target)
    }

    fn allow(&self, name: &str, bundle: &Bundle) -> Result<(), PluginError> {
        let path = self.record_path(name);
        let fail = |error: std::io::Error| PluginError { path: path.clone(), why: error.to_string() };
        let text = serde_json::to_string(&Record { sha256: bundle.sha256() }).unwrap_or_default() + "\n";
        replace_private(&path, text.as_bytes()).map_err(fail)
    }

    /// Removes a plugin and its permission; returns whether there was one.
    ///
    /// # Errors
    /// It can't be removed.
    pub fn remove(&self, name: &str) -> Result<bool, PluginError> {
        let target = self.directory.join(name);
        let fail = |why: String| PluginError { path: target.clone(), why };
        let is_name = !name.is_empty() && !name.starts_with('.') && !name.contains('/');
        if !is_name {
            return Err(fail("that is no name of a plugin".into()));
        }
        // The permission is removed first: from here on none of its programs runs.
        match std::fs::remove_file(self.record_path(name)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(fail(error.to_string())),
            _ => {}
        }
        let was_there = target.symlink_metadata().is_ok();
        remove_tree(&target).map_err(|error| fail(error.to_string()))?;
        Ok(was_there)
    }
}

/// Removes a directory with all that is in it; a link is removed itself.
fn remove_tree(path: &Path) -> std::io::Result<()> {
    match path.symlink_metadata() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(data) if data.is_dir() => std::fs::remove_dir_all(path),
        Ok(_) => std::fs::remove_file(path),
    }
}

type Files = BTreeMap<String, (Vec<u8>, bool)>;

/// Reads a directory and what is below it; anything but files and directories is refused.
fn collect(directory: &Path, prefix: &str, depth: usize, files: &mut Files, left: &mut u64) -> Result<(), String> {
    if depth > DEPTH_MAX {
        return Err(format!("its directories are more than {DEPTH_MAX} deep"));
    }
    let data = directory.symlink_metadata().map_err(|error| error.to_string())?;
    if !data.is_dir() {
        return Err("it is no directory".into());
    }
    for entry in std::fs::read_dir(directory).map_err(|error| error.to_string())? {
        let entry = entry.map_err(|error| error.to_string())?;
        let name = entry.file_name().into_string().map_err(|_| "a name in it is no text")?;
        let path = format!("{prefix}{name}");
        let wrong = |why: &dyn std::fmt::Display| format!("{path}: {why}");
        let kind = entry.file_type().map_err(|error| wrong(&error))?;
        if kind.is_dir() {
            collect(&entry.path(), &format!("{path}/"), depth + 1, files, left)?;
            continue;
        }
        if !kind.is_file() {
            return Err(wrong(&"it is neither file nor directory"));
        }
        if files.len() >= FILES_MAX {
            return Err(format!("it has more than {FILES_MAX} files"));
        }
        let mut options = OpenOptions::new();
        let file = options.read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY);
        let file: File = file.open(entry.path()).map_err(|error| wrong(&error))?;
        let data = file.metadata().map_err(|error| wrong(&error))?;
        if !data.is_file() {
            return Err(wrong(&"it is neither file nor directory"));
        }
        let mut bytes = Vec::new();
        file.take(*left + 1).read_to_end(&mut bytes).map_err(|error| wrong(&error))?;
        *left = left.checked_sub(bytes.len() as u64).ok_or_else(|| format!("it holds more than {BYTES_MAX} bytes"))?;
        files.insert(path, (bytes, data.mode() & 0o100 != 0));
    }
    Ok(())
}
