//! What a virtual machine is to be, said in flags.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use strata_types::pod::PortMapping;

use crate::failure::{Exit, Failure, Result};
use crate::session::Session;
use crate::values::{Bytes, LabelArg, Millicpus, Span, VmDiskArg, absolute, checked, label_name};
use crate::view::{Accelerator, MachineKind, Restart, VmSpecView};

/// More than cloud-init takes from such a disk anyway.
const MAX_USER_DATA: u64 = 1 << 20;

/// Specification of a virtual machine.
#[derive(Args, Debug)]
pub(super) struct VmSpecArgs {
    /// Name, also resolvable by pods and other VMs
    #[arg(value_parser = label_name, required_unless_present = "file")]
    name: Option<String>,

    /// Number of CPUs [default: 1]
    #[arg(long, value_name = "N", default_value_t, hide_default_value = true)]
    cpus: u32,
    /// CPU time limit, e.g. 500m [default: that of its CPUs]
    #[arg(long, value_name = "CPU")]
    cpu: Option<Millicpus>,
    /// Memory [default: 512MiB]
    #[arg(long, value_name = "SIZE")]
    memory: Option<Bytes>,
    /// Boot from a clone of this disk image, qcow2 or raw, on the host of the
    /// node
    #[arg(long, value_name = "FILE", value_parser = absolute, group = "boot")]
    #[arg(value_hint = ValueHint::FilePath)]
    image: Option<String>,
    /// Boot this kernel, on the host of the node
    #[arg(long, value_name = "FILE", value_parser = absolute, group = "boot")]
    #[arg(value_hint = ValueHint::FilePath)]
    kernel: Option<String>,
    /// Initial ramdisk
    #[arg(long, value_name = "FILE", value_parser = absolute)]
    #[arg(value_hint = ValueHint::FilePath)]
    initrd: Option<String>,
    /// Kernel command line
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    append: Option<String>,
    /// Size of the clone [default: that of the image]
    #[arg(long, value_name = "SIZE", requires = "image")]
    disk_size: Option<Bytes>,
    /// Additional disk: SIZE for an empty one, FILE[:ro] for an image on the
    /// host of the node, or pool=NAME[:ro]; repeatable
    #[arg(long, value_name = "DISK")]
    disk: Vec<VmDiskArg>,
    /// Machine type
    #[arg(long, value_enum, default_value_t)]
    machine: MachineKind,
    /// Accelerator
    #[arg(long, value_enum, default_value_t)]
    accelerator: Accelerator,
    /// Create no NIC
    #[arg(long, conflicts_with_all = ["address", "port"])]
    no_network: bool,
    /// IP address from the subnet of the node
    #[arg(long, value_name = "ADDRESS")]
    address: Option<String>,
    /// Publish a port: HOST:GUEST[/udp], e.g. 2222:22; repeatable
    #[arg(short, long, value_name = "PORT")]
    #[arg(value_parser = checked::<PortMapping>)]
    port: Vec<String>,
    /// Restart policy
    #[arg(long, value_enum, default_value_t)]
    restart: Restart,
    /// Time between ACPI shutdown and power-off [default: 30s]
    #[arg(long, value_name = "DURATION")]
    grace: Option<Span>,
    /// Label, key=value; repeatable
    #[arg(short, long, value_name = "LABEL")]
    label: Vec<LabelArg>,
    /// File on this host with user data for cloud-init; - is stdin
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    user_data: Option<PathBuf>,
}

impl VmSpecArgs {
    /// The virtual machine that was described.
    pub(super) fn view(self, session: &mut Session) -> Result<VmSpecView> {
        let Some(name) = self.name else {
            return Err(Failure::new(Exit::Usage, "no VM specified"));
        };
        if self.image.is_none() && self.kernel.is_none() {
            let what = format!("{name} has no boot source");
            return Err(Failure::new(Exit::Usage, what)
                .hint("pass --image FILE, or --kernel FILE with --initrd and --append"));
        }
        // The parser lets this through: an image excludes the kernel that
        // these need.
        if self.kernel.is_none() && (self.initrd.is_some() || self.append.is_some()) {
            let what = "--initrd and --append go with --kernel, not with an image";
            return Err(Failure::new(Exit::Usage, what));
        }
        Ok(VmSpecView {
            name,
            cpus: self.cpus,
            cpu: self.cpu,
            memory: self.memory,
            image: self.image,
            kernel: self.kernel,
            initrd: self.initrd,
            command_line: self.append,
            disk_size: self.disk_size,
            disks: self.disk,
            machine: self.machine,
            accelerator: self.accelerator,
            no_network: self.no_network,
            address: self.address,
            ports: self.port,
            restart: self.restart,
            stop_grace: self.grace,
            labels: self.label.into_iter().map(|l| (l.0, l.1)).collect(),
            user_data: self.user_data.map(|f| read(&f, session)).transpose()?,
            ..Default::default()
        })
    }
}

fn read(file: &Path, session: &mut Session) -> Result<String> {
    let mut text = String::new();
    let read = if file == Path::new("-") {
        let input = (&mut session.input).take(MAX_USER_DATA + 1);
        { input }.read_to_string(&mut text)
    } else {
        let file = std::fs::File::open(file);
        file.and_then(|file| file.take(MAX_USER_DATA + 1).read_to_string(&mut text))
    };
    read.map_err(|why| Failure::file("read", file, &why))?;
    if text.len() as u64 > MAX_USER_DATA {
        let what = format!("{} is larger than 1 MiB", file.display());
        return Err(Failure::new(Exit::Usage, what));
    }
    Ok(text)
}
