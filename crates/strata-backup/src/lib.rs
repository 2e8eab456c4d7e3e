//! Backups of folders in a repository of the open restic format.
