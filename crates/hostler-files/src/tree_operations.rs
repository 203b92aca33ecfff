//! Directories and whole trees: made, copied, moved, removed.

use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, Stat};
use rustix::io::Errno;

use crate::file_write::{PRIVATE_FILE_MODE, apply_attributes_and_sync};
use crate::locate::FileHandle;
use crate::path_target::PathTarget;
use crate::roots::find_existing_ancestor;
use crate::temp_entry::{self, TempEntry};
use crate::tree::{self, TreeLimits};
use crate::{FileAccess, FileError, FileKind, FileOperations, OpenedFile, Roots};

impl FileOperations {
    /// Makes a directory, and those above it that are missing. One that is there is fine.
    ///
    /// # Errors
    /// If it may not be made, or something else has its name.
    pub fn make_directory(&self, roots: &Roots, path: &Path) -> Result<(), FileError> {
        let (top, missing) =
            find_existing_ancestor(roots, path).map_err(|error| roots.hide_outside_error(path, error))?;
        // Where it would be is where it will be: there are no links on the way from here.
        let whole = missing.iter().fold(top.path.clone(), |path, name| path.join(name));
        if !roots.contains(&whole, FileAccess::Write)
            || (!missing.is_empty() && !roots.contains(&top.path, FileAccess::Write))
        {
            return Err(FileError::Outside);
        }
        let opened = OpenedFile::new(top)?;
        if opened.resolved().kind != FileKind::Directory {
            return Err(FileError::AlreadyExists);
        }
        let mut directory = opened.into_handle();
        for name in missing {
            match rustix::fs::mkdirat(&directory, name, Mode::RWXU | Mode::RWXG | Mode::RWXO) {
                // Somebody else makes it too.
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
            directory = match FileHandle::open_directory(&directory, name) {
                // A link that leads nowhere, or a file.
                Err(FileError::NotFound | FileError::LinkLoop) => return Err(FileError::AlreadyExists),
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
        roots.check_no_exclusions_below(&source.resolved().path)?;
        let target = roots.locate_child_target(to, FileAccess::Write)?;
        if check_disjoint(&source.resolved().path, &target.path())? == PathOverlap::Same {
            return if keep { Err(FileError::AlreadyExists) } else { Ok(()) };
        }
        let _alone = self.locks.lock(&[&target])?;
        roots.check_no_exclusions_below(&target.path())?;
        let old = check_replaceable(&target, keep)?;
        let fresh = copy_to_temp(roots, source, &target, old.as_ref(), limits)?;
        if keep { fresh.persist_new(&target) } else { fresh.persist_replacing(&target) }
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
        let source = roots.locate_child_target(from, FileAccess::Write)?;
        let target = roots.locate_child_target(to, FileAccess::Write)?;
        let stat = source.stat()?.ok_or(FileError::NotFound)?;
        check_ordinary(&stat)?;
        if check_disjoint(&source.path(), &target.path())? == PathOverlap::Same {
            return if keep { Err(FileError::AlreadyExists) } else { Ok(()) };
        }
        roots.check_no_exclusions_below(&source.path())?;
        let _alone = self.locks.lock(&[&source, &target])?;
        roots.check_no_exclusions_below(&target.path())?;
        let old = check_replaceable(&target, keep)?;
        let directory = source.directory.handle.as_fd();
        if old.is_some_and(|old| (old.st_dev, old.st_ino) == (stat.st_dev, stat.st_ino)) {
            // Two names of one file: the system would leave both.
            return Ok(rustix::fs::unlinkat(directory, &source.name, AtFlags::empty())?);
        }
        let moved = match keep {
            true => temp_entry::create(directory, &source.name, &target),
            false => temp_entry::replace(directory, &source.name, &target),
        };
        match moved {
            Err(FileError::Io(error)) if error.kind() == std::io::ErrorKind::CrossesDevices => {
                let fresh = copy_to_temp(roots, source.open(roots)?, &target, None, limits)?;
                if keep {
                    fresh.persist_new(&target)?
                } else {
                    fresh.persist_replacing(&target)?
                }
                tree::remove_tree(directory, &source.name)
            }
            moved => moved,
        }
    }

    /// Removes a file, a link or a directory; one that holds something only if `recursive` says so.
    ///
    /// # Errors
    /// If there is nothing, or it may not be removed.
    pub fn remove(&self, roots: &Roots, path: &Path, recursive: bool) -> Result<(), FileError> {
        let place = roots.locate_child_target(trim_trailing_slash(path), FileAccess::Write)?;
        roots.check_no_exclusions_below(&place.path())?;
        let _alone = self.locks.lock(&[&place])?;
        let stat = place.stat()?.ok_or(FileError::NotFound)?;
        check_ordinary(&stat)?;
        let directory = place.directory.handle.as_fd();
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory if recursive => tree::remove_tree(directory, &place.name),
            FileType::Directory => Ok(rustix::fs::unlinkat(directory, &place.name, AtFlags::REMOVEDIR)?),
            // One that is swapped for a directory meanwhile is not removed by this.
            _ => Ok(rustix::fs::unlinkat(directory, &place.name, AtFlags::empty())?),
        }
    }
}

/// A copy beside the target that has no name of its own yet.
fn copy_to_temp<'a>(
    roots: &Roots,
    source: OpenedFile,
    target: &'a PathTarget,
    old: Option<&Stat>,
    limits: &TreeLimits,
) -> Result<TempEntry<'a>, FileError> {
    let directory: BorrowedFd<'a> = target.directory.handle.as_fd();
    let mode = tree::permission_bits(source.stat().st_mode);
    if source.resolved().kind == FileKind::Directory {
        let (fresh, into) = TempEntry::create_directory(directory)?;
        tree::copy_tree(roots, source.into_handle(), &into, limits)?;
        rustix::fs::fchmod(&into, mode)?;
        return Ok(fresh);
    }
    let (fresh, file) = TempEntry::create_file(directory, PRIVATE_FILE_MODE)?;
    tree::copy_file(source, &file, limits.bytes)?;
    apply_attributes_and_sync(&file, old)?;
    rustix::fs::fchmod(&file, mode)?;
    Ok(fresh)
}

/// What is at a place and would be replaced.
fn check_replaceable(place: &PathTarget, keep: bool) -> Result<Option<Stat>, FileError> {
    let stat = place.stat()?;
    if keep && stat.is_some() {
        return Err(FileError::AlreadyExists);
    }
    stat.as_ref().map(check_ordinary).transpose()?;
    Ok(stat)
}

/// Pipes, sockets and devices are left alone.
fn check_ordinary(stat: &Stat) -> Result<(), FileError> {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile | FileType::Directory | FileType::Symlink => Ok(()),
        _ => Err(FileError::Special),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PathOverlap {
    Same,
    Disjoint,
}

/// Two paths without links, of which neither may lie within the other.
fn check_disjoint(one: &Path, other: &Path) -> Result<PathOverlap, FileError> {
    match (one.starts_with(other), other.starts_with(one)) {
        (true, true) => Ok(PathOverlap::Same),
        (false, false) => Ok(PathOverlap::Disjoint),
        _ => Err(FileError::Nested),
    }
}

/// A directory may be named with a slash at its end.
fn trim_trailing_slash(path: &Path) -> &Path {
    // The components' own path has none.
    path.components().as_path()
}
