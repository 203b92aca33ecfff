//! Creates directories, and copies, moves and removes files and whole trees. Checks roots, access and overlap;
//! [`crate::tree`] does the work.

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
    /// Creates a directory and its missing parents. An existing directory is not an error.
    ///
    /// # Errors
    /// If the directory may not be created, or its name belongs to another kind of entry.
    pub fn make_directory(&self, roots: &Roots, path: &Path) -> Result<(), FileError> {
        let (top, missing) =
            find_existing_ancestor(roots, path).map_err(|error| roots.hide_outside_error(path, error))?;
        // Below the existing ancestor there are no links, so this is the real path of the new directory.
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
                // Another process has created it.
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
            directory = match FileHandle::open_directory(&directory, name) {
                // A dangling link, or a file.
                Err(FileError::NotFound | FileError::LinkLoop) => return Err(FileError::AlreadyExists),
                opened => opened?,
            };
        }
        Ok(())
    }

    /// Copies a file or a tree; links in it remain links. An existing target is replaced in one step.
    ///
    /// # Errors
    /// If either path may not be used, if one contains the other, if the target exists and `no_overwrite` is set, if the source
    /// contains a pipe, a socket or a device, or if it exceeds the limits. Nothing has changed then.
    pub fn copy(
        &self,
        roots: &Roots,
        from: &Path,
        to: &Path,
        no_overwrite: bool,
        limits: &TreeLimits,
    ) -> Result<(), FileError> {
        let source = roots.open(from)?;
        roots.check_no_exclusions_below(&source.resolved().path)?;
        let target = roots.locate_child_target(to, FileAccess::Write)?;
        if check_disjoint(&source.resolved().path, &target.path())? == PathOverlap::Same {
            return if no_overwrite { Err(FileError::AlreadyExists) } else { Ok(()) };
        }
        let _alone = self.locks.lock(&[&target])?;
        roots.check_no_exclusions_below(&target.path())?;
        let old = check_replaceable(&target, no_overwrite)?;
        let fresh = copy_to_temp(roots, source, &target, old.as_ref(), limits)?;
        if no_overwrite { fresh.persist_new(&target) } else { fresh.persist_replacing(&target) }
    }

    /// Moves a file, a link or a tree. An existing target is replaced.
    ///
    /// # Errors
    /// Those of [`FileOperations::copy`].
    pub fn rename(
        &self,
        roots: &Roots,
        from: &Path,
        to: &Path,
        no_overwrite: bool,
        limits: &TreeLimits,
    ) -> Result<(), FileError> {
        let source = roots.locate_child_target(from, FileAccess::Write)?;
        let target = roots.locate_child_target(to, FileAccess::Write)?;
        let stat = source.stat()?.ok_or(FileError::NotFound)?;
        check_ordinary(&stat)?;
        if check_disjoint(&source.path(), &target.path())? == PathOverlap::Same {
            return if no_overwrite { Err(FileError::AlreadyExists) } else { Ok(()) };
        }
        roots.check_no_exclusions_below(&source.path())?;
        let _alone = self.locks.lock(&[&source, &target])?;
        roots.check_no_exclusions_below(&target.path())?;
        let old = check_replaceable(&target, no_overwrite)?;
        let directory = source.directory.handle.as_fd();
        if old.is_some_and(|old| (old.st_dev, old.st_ino) == (stat.st_dev, stat.st_ino)) {
            // Source and target are hard links to one file: `rename` would leave both names.
            return Ok(rustix::fs::unlinkat(directory, &source.name, AtFlags::empty())?);
        }
        let moved = match no_overwrite {
            true => temp_entry::create(directory, &source.name, &target),
            false => temp_entry::replace(directory, &source.name, &target),
        };
        match moved {
            Err(FileError::Io(error)) if error.kind() == std::io::ErrorKind::CrossesDevices => {
                let fresh = copy_to_temp(roots, source.open(roots)?, &target, None, limits)?;
                if no_overwrite {
                    fresh.persist_new(&target)?
                } else {
                    fresh.persist_replacing(&target)?
                }
                tree::remove_tree(directory, &source.name)
            }
            moved => moved,
        }
    }

    /// Removes a file, a link or a directory. A directory that is not empty requires `recursive`.
    ///
    /// # Errors
    /// If the path does not exist, or may not be removed.
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
            // This does not remove a directory that replaced the entry meanwhile.
            _ => Ok(rustix::fs::unlinkat(directory, &place.name, AtFlags::empty())?),
        }
    }
}

/// Copies to a temporary name beside the target.
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

/// The metadata of an existing target, which would be replaced.
fn check_replaceable(place: &PathTarget, no_overwrite: bool) -> Result<Option<Stat>, FileError> {
    let stat = place.stat()?;
    if no_overwrite && stat.is_some() {
        return Err(FileError::AlreadyExists);
    }
    stat.as_ref().map(check_ordinary).transpose()?;
    Ok(stat)
}

/// Refuses pipes, sockets and devices.
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

/// Refuses two paths without links of which one contains the other.
fn check_disjoint(one: &Path, other: &Path) -> Result<PathOverlap, FileError> {
    match (one.starts_with(other), other.starts_with(one)) {
        (true, true) => Ok(PathOverlap::Same),
        (false, false) => Ok(PathOverlap::Disjoint),
        _ => Err(FileError::Nested),
    }
}

/// Removes a slash at the end of a directory's path.
fn trim_trailing_slash(path: &Path) -> &Path {
    // `Components::as_path` omits it.
    path.components().as_path()
}
