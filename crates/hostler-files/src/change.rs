//! Directories and whole trees: made, copied, moved, removed.

use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, Stat};
use rustix::io::Errno;

use crate::fresh::{self, Fresh};
use crate::place::Place;
use crate::reach::Handle;
use crate::roots::existing;
use crate::tree::{self, TreeLimits};
use crate::write::{PRIVATE, finish};
use crate::{Access, FileError, FileKind, Files, Opened, Roots};

impl Files {
    /// Makes a directory, and those above it that are missing. One that is there is fine.
    ///
    /// # Errors
    /// If it may not be made, or something else has its name.
    pub fn make_directory(&self, roots: &Roots, path: &Path) -> Result<(), FileError> {
        let (top, missing) = existing(roots, path).map_err(|error| roots.discreet(path, error))?;
        // Where it would be is where it will be: there are no links on the way from here.
        let whole = missing.iter().fold(top.path.clone(), |path, name| path.join(name));
        if !roots.hold(&whole, Access::Write) || (!missing.is_empty() && !roots.hold(&top.path, Access::Write)) {
            return Err(FileError::Outside);
        }
        let opened = Opened::new(top)?;
        if opened.found().kind != FileKind::Directory {
            return Err(FileError::AlreadyExists);
        }
        let mut directory = opened.into_handle();
        for name in missing {
            match rustix::fs::mkdirat(&directory, name, Mode::RWXU | Mode::RWXG | Mode::RWXO) {
                // Somebody else makes it too.
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
            directory = match Handle::directory(&directory, name) {
                // A link that leads nowhere, or a file.
                Err(FileError::NotFound | FileError::Circle) => return Err(FileError::AlreadyExists),
                opened => opened?,
            };
        }
        Ok(())
    }

    /// Copies a file or a tree; links in it stay links. What is there is replaced, all at once.
    ///
    /// # Errors
    /// If either may not be used, if one lies within the other, if there is something and `keep` says that it stays, if there is
    /// a pipe, a socket or a device in it, or if it is larger than the limits. Then nothing has changed.
    pub fn copy(
        &self,
        roots: &Roots,
        from: &Path,
        to: &Path,
        keep: bool,
        limits: &TreeLimits,
    ) -> Result<(), FileError> {
        let source = roots.open(from)?;
        roots.whole(&source.found().path)?;
        let target = roots.place_within(to, Access::Write)?;
        if apart(&source.found().path, &target.path())? == Apart::Same {
            return if keep { Err(FileError::AlreadyExists) } else { Ok(()) };
        }
        let _alone = self.locks.lock(&[&target])?;
        roots.whole(&target.path())?;
        let old = replaceable(&target, keep)?;
        let fresh = duplicate(roots, source, &target, old.as_ref(), limits)?;
        if keep { fresh.create(&target) } else { fresh.replace(&target) }
    }

    /// Moves a file, a link or a tree. What is there is replaced.
    ///
    /// # Errors
    /// As [`Files::copy`].
    pub fn rename(
        &self,
        roots: &Roots,
        from: &Path,
        to: &Path,
        keep: bool,
        limits: &TreeLimits,
    ) -> Result<(), FileError> {
        let source = roots.place_within(from, Access::Write)?;
        let target = roots.place_within(to, Access::Write)?;
        let stat = source.stat()?.ok_or(FileError::NotFound)?;
        ordinary(&stat)?;
        if apart(&source.path(), &target.path())? == Apart::Same {
            return if keep { Err(FileError::AlreadyExists) } else { Ok(()) };
        }
        roots.whole(&source.path())?;
        let _alone = self.locks.lock(&[&source, &target])?;
        roots.whole(&target.path())?;
        let old = replaceable(&target, keep)?;
        let directory = source.directory.handle.as_fd();
        if old.is_some_and(|old| (old.st_dev, old.st_ino) == (stat.st_dev, stat.st_ino)) {
            // Two names of one file: the system would leave both.
            return Ok(rustix::fs::unlinkat(directory, &source.name, AtFlags::empty())?);
        }
        let moved = match keep {
            true => fresh::create(directory, &source.name, &target),
            false => fresh::replace(directory, &source.name, &target),
        };
        match moved {
            Err(FileError::Io(error)) if error.kind() == std::io::ErrorKind::CrossesDevices => {
                let fresh = duplicate(roots, source.open(roots)?, &target, None, limits)?;
                if keep {
                    fresh.create(&target)?
                } else {
                    fresh.replace(&target)?
                }
                tree::remove(directory, &source.name)
            }
            moved => moved,
        }
    }

    /// Removes a file, a link or a directory; one that holds something only if `recursive` says so.
    ///
    /// # Errors
    /// If there is nothing, or it may not be removed.
    pub fn remove(&self, roots: &Roots, path: &Path, recursive: bool) -> Result<(), FileError> {
        let place = roots.place_within(trimmed(path), Access::Write)?;
        roots.whole(&place.path())?;
        let _alone = self.locks.lock(&[&place])?;
        let stat = place.stat()?.ok_or(FileError::NotFound)?;
        ordinary(&stat)?;
        let directory = place.directory.handle.as_fd();
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory if recursive => tree::remove(directory, &place.name),
            FileType::Directory => Ok(rustix::fs::unlinkat(directory, &place.name, AtFlags::REMOVEDIR)?),
            // One that is swapped for a directory meanwhile is not removed by this.
            _ => Ok(rustix::fs::unlinkat(directory, &place.name, AtFlags::empty())?),
        }
    }
}

/// A copy beside the target that has no name of its own yet.
fn duplicate<'a>(
    roots: &Roots,
    source: Opened,
    target: &'a Place,
    old: Option<&Stat>,
    limits: &TreeLimits,
) -> Result<Fresh<'a>, FileError> {
    let directory: BorrowedFd<'a> = target.directory.handle.as_fd();
    let mode = tree::permissions(source.stat().st_mode);
    if source.found().kind == FileKind::Directory {
        let (fresh, into) = Fresh::directory(directory)?;
        tree::copy(roots, source.into_handle(), &into, limits)?;
        rustix::fs::fchmod(&into, mode)?;
        return Ok(fresh);
    }
    let (fresh, file) = Fresh::file(directory, PRIVATE)?;
    tree::copy_file(source, &file, limits.bytes)?;
    finish(&file, old)?;
    rustix::fs::fchmod(&file, mode)?;
    Ok(fresh)
}

/// What is at a place and would be replaced.
fn replaceable(place: &Place, keep: bool) -> Result<Option<Stat>, FileError> {
    let stat = place.stat()?;
    if keep && stat.is_some() {
        return Err(FileError::AlreadyExists);
    }
    stat.as_ref().map(ordinary).transpose()?;
    Ok(stat)
}

/// Pipes, sockets and devices are left alone.
fn ordinary(stat: &Stat) -> Result<(), FileError> {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile | FileType::Directory | FileType::Symlink => Ok(()),
        _ => Err(FileError::Special),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Apart {
    Same,
    Yes,
}

/// Two paths without links, of which neither may lie within the other.
fn apart(one: &Path, other: &Path) -> Result<Apart, FileError> {
    match (one.starts_with(other), other.starts_with(one)) {
        (true, true) => Ok(Apart::Same),
        (false, false) => Ok(Apart::Yes),
        _ => Err(FileError::Nested),
    }
}

/// A directory may be named with a slash at its end.
fn trimmed(path: &Path) -> &Path {
    // The components' own path has none.
    path.components().as_path()
}
