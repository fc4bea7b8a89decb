//! The handler of a front end's requests, with the state of its device's rings.
//!
//! Every change of a ring stops it on the data thread. It starts again as soon as everything that
//! it needs is known. So the data thread never sees half of a change, and no request is answered
//! before its change is in effect.

use std::fs::File;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use vhost::VhostUserMemoryRegionBase;
use vhost::vhost_user::message::{
    VhostTransferStateDirection, VhostTransferStatePhase, VhostUserConfigFlags, VhostUserInflight,
    VhostUserLog, VhostUserMemoryRegion, VhostUserProtocolFeatures, VhostUserShMemConfig,
    VhostUserSharedMsg, VhostUserSingleMemoryRegion, VhostUserVringAddrFlags, VhostUserVringState,
};
use vhost::vhost_user::{Backend, Error, GpuBackend, Result, VhostUserBackendReqHandlerMut};

use super::region::Region;
use super::{Command, CommandSender, RingId};
use crate::features::{self, has};
use crate::ring::{MAX_SIZE, Memory, Setup};
use crate::truncation::Watch;

/// The network device as its virtual machine sees it.
#[derive(Clone, Debug)]
pub(crate) struct Device {
    /// Ethernet address of the device.
    pub(crate) mac: [u8; 6],
    /// Longest IP packet in bytes that the guest may send.
    pub(crate) mtu: u16,
    /// Number of pairs of rings.
    pub(crate) pairs: u8,
}

impl Device {
    /// The device's configuration space (virtio 1.2, section 5.1.4): address, status (the link is
    /// up), number of queue pairs, MTU.
    fn configuration(&self) -> [u8; 12] {
        let mut bytes = [0; 12];
        bytes[..6].copy_from_slice(&self.mac);
        bytes[6..8].copy_from_slice(&1u16.to_le_bytes());
        bytes[8..10].copy_from_slice(&u16::from(self.pairs).to_le_bytes());
        bytes[10..].copy_from_slice(&self.mtu.to_le_bytes());
        bytes
    }

    /// Number of rings: one pair, or several pairs and the control queue.
    fn rings(&self) -> usize {
        2 * usize::from(self.pairs) + usize::from(self.pairs > 1)
    }
}

/// What the front end has said about a ring so far; addresses are the front end's.
#[derive(Debug, Default)]
struct RingState {
    size: u16,
    addresses: Option<[u64; 3]>,
    next: u16,
    kick: Option<File>,
    call: Option<File>,
    error: Option<File>,
    enabled: bool,
    /// What it is on the data thread, while it runs there.
    running: Option<RingId>,
}

/// The handler of one front end's requests.
pub(super) struct Handler {
    vm: usize,
    device: Device,
    sender: Arc<CommandSender>,
    features: u64,
    protocol: u64,
    /// The watch is dropped before the memory.
    memory: Option<(Arc<Watch>, Arc<Memory>, Vec<Region>)>,
    rings: Vec<RingState>,
    /// Kept open, because closing it would tell the front end that the device is gone.
    back_channel: Option<Backend>,
}

impl Handler {
    pub(super) fn new(vm: usize, device: Device, sender: Arc<CommandSender>) -> Self {
        let rings = new_rings(&device);
        Self {
            vm,
            device,
            sender,
            features: 0,
            protocol: 0,
            memory: None,
            rings,
            back_channel: None,
        }
    }

    /// Whether both sides have negotiated replies.
    pub(super) fn replies(&self) -> bool {
        self.protocol & VhostUserProtocolFeatures::REPLY_ACK.bits() != 0
    }

    /// Replaces the guest's memory.
    pub(super) fn set_memory(&mut self, memory: Memory, watch: Arc<Watch>, regions: Vec<Region>) {
        self.stop_all();
        self.memory = Some((watch, Arc::new(memory), regions));
        self.start_all();
    }

    /// Stops all rings on the data thread.
    pub(super) fn stop_all(&mut self) {
        for index in 0..self.rings.len() {
            self.stop(index);
        }
    }

    fn start_all(&mut self) {
        for index in 0..self.rings.len() {
            self.start(index);
        }
    }

    fn stop(&mut self, index: usize) {
        let state = &mut self.rings[index];
        let Some(ring) = state.running.take() else { return };
        let (answer, answered) = sync_channel(1);
        if self.sender.send(Command::Stop { vm: self.vm, ring, answer })
            && let Ok(Some(next)) = answered.recv()
        {
            state.next = next;
        }
    }

    /// Starts a ring if everything that it needs is known.
    fn start(&mut self, index: usize) {
        // A ring that the accepted features do not have is described, but does not start.
        let Some(ring) = RingId::of(index, self.device.pairs, self.features) else { return };
        let state = &mut self.rings[index];
        if state.running.is_some() {
            return;
        }
        let (Some((watch, memory, regions)), Some(addresses), true) =
            (&self.memory, state.addresses, state.enabled)
        else {
            return;
        };
        let translate = |a: u64| regions.iter().find_map(|r| r.translate(a));
        let [Some(descriptors), Some(available), Some(used)] = addresses.map(translate) else {
            return;
        };
        let copy = |file: &Option<File>| file.as_ref().and_then(|f| f.try_clone().ok());
        let Some(kick) = copy(&state.kick) else { return };
        let setup = Setup {
            size: state.size,
            descriptors,
            available,
            used,
            next: state.next,
            event_index: has(self.features, features::EVENT_INDEX),
            merge: has(self.features, features::MERGE),
            header: features::header(self.features),
            kick: Some(kick),
            call: copy(&state.call),
        };
        let start = Command::Start {
            vm: self.vm,
            ring,
            setup: Box::new(setup),
            watch: Arc::clone(watch),
            memory: Arc::clone(memory),
            features: self.features,
            error: copy(&state.error),
        };
        state.running = self.sender.send(start).then_some(ring);
    }

    /// Changes the state of ring `index`, which does not run meanwhile.
    fn change(&mut self, index: u32, change: impl FnOnce(&mut RingState)) -> Result<()> {
        let index = self.index(index)?;
        self.stop(index);
        change(&mut self.rings[index]);
        self.start(index);
        Ok(())
    }

    /// Checks the index of a ring.
    fn index(&self, index: u32) -> Result<usize> {
        usize::try_from(index).ok().filter(|i| *i < self.rings.len()).ok_or(Error::InvalidParam)
    }
}

fn new_rings(device: &Device) -> Vec<RingState> {
    (0..device.rings()).map(|_| RingState::default()).collect()
}

/// Makes a descriptor of the front end non-blocking, so that it cannot block the data thread.
fn nonblocking(file: Option<File>) -> Result<Option<File>> {
    use std::os::fd::AsRawFd;
    let Some(file) = file else { return Ok(None) };
    // SAFETY: the calls take no pointers, and the descriptor is `file`'s.
    let done = unsafe {
        let flags = libc::fcntl(file.as_raw_fd(), libc::F_GETFL);
        flags >= 0 && libc::fcntl(file.as_raw_fd(), libc::F_SETFL, flags | libc::O_NONBLOCK) == 0
    };
    if done { Ok(Some(file)) } else { Err(Error::IncorrectFds) }
}

fn unsupported<T>() -> Result<T> {
    Err(Error::InvalidOperation("not offered"))
}

impl VhostUserBackendReqHandlerMut for Handler {
    fn set_owner(&mut self) -> Result<()> {
        Ok(())
    }

    fn reset_owner(&mut self) -> Result<()> {
        self.reset_device()
    }

    fn reset_device(&mut self) -> Result<()> {
        self.stop_all();
        self.rings = new_rings(&self.device);
        self.features = 0;
        self.sender.send(Command::Reset { vm: self.vm });
        Ok(())
    }

    fn get_features(&mut self) -> Result<u64> {
        Ok(features::offered(self.device.pairs))
    }

    fn set_features(&mut self, features: u64) -> Result<()> {
        if features & !features::offered(self.device.pairs) != 0 {
            return Err(Error::FeatureMismatch);
        }
        // QEMU sets them again for each pair of rings.
        if features != self.features {
            self.stop_all();
            self.features = features;
        }
        // Without protocol features a front end never enables rings: they count as enabled.
        if !has(features, features::PROTOCOL) {
            self.rings.iter_mut().for_each(|state| state.enabled = true);
        }
        self.start_all();
        Ok(())
    }

    /// Never called, because [`super::memory::receive`] handles this message.
    fn set_mem_table(
        &mut self,
        _: &[VhostUserMemoryRegion],
        _: Vec<File>,
        _: Option<bool>,
    ) -> Result<Option<Vec<VhostUserMemoryRegionBase>>> {
        unsupported()
    }

    fn set_vring_num(&mut self, index: u32, num: u32) -> Result<()> {
        let size = u16::try_from(num).map_err(|_| Error::InvalidParam)?;
        if !size.is_power_of_two() || size > MAX_SIZE {
            return Err(Error::InvalidParam);
        }
        self.change(index, |state| state.size = size)
    }

    fn set_vring_addr(
        &mut self,
        index: u32,
        _flags: VhostUserVringAddrFlags,
        descriptor: u64,
        used: u64,
        available: u64,
        _log: u64,
    ) -> Result<()> {
        self.change(index, |state| state.addresses = Some([descriptor, available, used]))
    }

    fn set_vring_base(&mut self, index: u32, base: u32) -> Result<()> {
        self.change(index, |state| state.next = base as u16)
    }

    fn get_vring_base(&mut self, index: u32) -> Result<VhostUserVringState> {
        let at = self.index(index)?;
        self.stop(at);
        let state = &mut self.rings[at];
        (state.kick, state.call) = (None, None);
        Ok(VhostUserVringState::new(index, state.next.into()))
    }

    fn set_vring_kick(&mut self, index: u8, fd: Option<File>) -> Result<()> {
        let file = nonblocking(fd)?;
        self.change(index.into(), |state| state.kick = file)
    }

    fn set_vring_call(&mut self, index: u8, fd: Option<File>) -> Result<()> {
        let file = nonblocking(fd)?;
        self.change(index.into(), |state| state.call = file)
    }

    fn set_vring_err(&mut self, index: u8, fd: Option<File>) -> Result<()> {
        let file = nonblocking(fd)?;
        self.change(index.into(), |state| state.error = file)
    }

    fn get_protocol_features(&mut self) -> Result<VhostUserProtocolFeatures> {
        let mut features = VhostUserProtocolFeatures::CONFIG
            | VhostUserProtocolFeatures::BACKEND_REQ
            | VhostUserProtocolFeatures::RESET_DEVICE;
        if self.device.pairs > 1 {
            features |= VhostUserProtocolFeatures::MQ;
        }
        Ok(features)
    }

    fn set_protocol_features(&mut self, features: u64) -> Result<()> {
        self.protocol = features;
        Ok(())
    }

    /// The number of pairs of rings, as front ends of network devices understand it.
    fn get_queue_num(&mut self) -> Result<u64> {
        Ok(self.device.pairs.into())
    }

    fn set_vring_enable(&mut self, index: u32, enable: bool) -> Result<()> {
        self.change(index, |state| state.enabled = enable)
    }

    fn get_config(&mut self, offset: u32, size: u32, _: VhostUserConfigFlags) -> Result<Vec<u8>> {
        let configuration = self.device.configuration();
        let rest = configuration.get(offset as usize..).unwrap_or_default();
        let padding = std::iter::repeat(0);
        Ok(rest.iter().copied().chain(padding).take(size as usize).collect())
    }

    /// Ignored: the fields are read-only for the driver (virtio 1.2, section 5.1.4).
    fn set_config(&mut self, _: u32, _: &[u8], _: VhostUserConfigFlags) -> Result<()> {
        Ok(())
    }

    fn set_backend_req_fd(&mut self, backend: Backend) {
        self.back_channel = Some(backend);
    }

    fn set_gpu_socket(&mut self, _: GpuBackend) -> Result<()> {
        unsupported()
    }

    fn get_shared_object(&mut self, _: VhostUserSharedMsg) -> Result<File> {
        unsupported()
    }

    fn get_inflight_fd(&mut self, _: &VhostUserInflight) -> Result<(VhostUserInflight, File)> {
        unsupported()
    }

    fn set_inflight_fd(&mut self, _: &VhostUserInflight, _: File) -> Result<()> {
        unsupported()
    }

    fn get_max_mem_slots(&mut self) -> Result<u64> {
        unsupported()
    }

    fn add_mem_region(
        &mut self,
        _: &VhostUserSingleMemoryRegion,
        _: File,
        _: Option<bool>,
    ) -> Result<Option<VhostUserMemoryRegionBase>> {
        unsupported()
    }

    fn remove_mem_region(&mut self, _: &VhostUserSingleMemoryRegion) -> Result<()> {
        unsupported()
    }

    fn set_device_state_fd(
        &mut self,
        _: VhostTransferStateDirection,
        _: VhostTransferStatePhase,
        _: File,
    ) -> Result<Option<File>> {
        unsupported()
    }

    fn check_device_state(&mut self) -> Result<()> {
        unsupported()
    }

    fn get_shmem_config(&mut self) -> Result<VhostUserShMemConfig> {
        unsupported()
    }

    fn set_log_base(&mut self, _: &VhostUserLog, _: File) -> Result<()> {
        unsupported()
    }
}
