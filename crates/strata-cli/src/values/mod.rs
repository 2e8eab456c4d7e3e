//! What people write on the command line, as values: sizes, durations,
//! limits. Each says in one sentence what it takes when it refuses.

mod bytes;
mod cpus;
mod duration;
mod environment;
mod io_limit;
mod label;
mod millicpus;
mod name;
mod path;
mod placement;
mod pool;
mod probe;
mod root;
mod since;
mod users;
mod vm_disk;
mod volume;
mod yaml;

pub(crate) use bytes::Bytes;
pub(crate) use cpus::Cpus;
pub(crate) use duration::Span;
pub(crate) use environment::{EnvironmentArg, environment_file};
pub(crate) use io_limit::IoLimitArg;
pub(crate) use label::{LabelArg, LabelChange};
pub(crate) use millicpus::Millicpus;
pub(crate) use name::{
    cell_name, checked, executable_name, label_name, object_name, role, variable,
};
pub(crate) use path::absolute;
pub(crate) use placement::{GpuArg, PreferArg};
pub(crate) use pool::PoolArg;
pub(crate) use probe::HttpProbeArg;
pub(crate) use root::Root;
pub(crate) use since::Since;
pub(crate) use users::UsersArg;
pub(crate) use vm_disk::VmDiskArg;
pub(crate) use volume::{TmpfsArg, VolumeArg};
pub(crate) use yaml::{documents, plain_documents, text as text_of};
