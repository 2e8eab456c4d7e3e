//! The numbers of the kernel's headers that are used here, under the names
//! that the headers give them (without their prefix).

#![allow(missing_docs)]

/// Flags of a message.
pub(crate) mod flag {
    pub(crate) const REQUEST: u16 = 0x1;
    pub(crate) const ACK: u16 = 0x4;
    pub(crate) const DUMP: u16 = 0x300;
    pub(crate) const REPLACE: u16 = 0x100;
    pub(crate) const EXCL: u16 = 0x200;
    pub(crate) const CREATE: u16 = 0x400;
    pub(crate) const APPEND: u16 = 0x800;
}

pub(super) mod control {
    pub(in crate::netlink) const ERROR: u16 = 2;
    pub(in crate::netlink) const DONE: u16 = 3;
}

/// Links, addresses, routes, neighbours.
pub(crate) mod route {
    pub(crate) const NEWLINK: u16 = 16;
    pub(crate) const DELLINK: u16 = 17;
    pub(crate) const GETLINK: u16 = 18;
    pub(crate) const NEWADDR: u16 = 20;
    pub(crate) const DELADDR: u16 = 21;
    pub(crate) const GETADDR: u16 = 22;
    pub(crate) const NEWROUTE: u16 = 24;
    pub(crate) const DELROUTE: u16 = 25;
    pub(crate) const GETROUTE: u16 = 26;
    pub(crate) const NEWNEIGH: u16 = 28;
    pub(crate) const DELNEIGH: u16 = 29;
    pub(crate) const GETNEIGH: u16 = 30;
    pub(crate) const NEWRULE: u16 = 32;
    pub(crate) const DELRULE: u16 = 33;

    /// The size of `struct ifinfomsg`.
    pub(crate) const LINK_HEADER: usize = 16;
    /// The size of `struct ifaddrmsg`.
    pub(crate) const ADDRESS_HEADER: usize = 8;
    /// The size of `struct rtmsg`.
    pub(crate) const ROUTE_HEADER: usize = 12;
    /// The size of `struct ndmsg`.
    pub(crate) const NEIGHBOUR_HEADER: usize = 12;
    /// The size of `struct fib_rule_hdr`.
    pub(crate) const RULE_HEADER: usize = 12;

    pub(crate) const IFLA_ADDRESS: u16 = 1;
    pub(crate) const IFLA_IFNAME: u16 = 3;
    pub(crate) const IFLA_MTU: u16 = 4;
    pub(crate) const IFLA_LINK: u16 = 5;
    pub(crate) const IFLA_MASTER: u16 = 10;
    pub(crate) const IFLA_OPERSTATE: u16 = 16;
    pub(crate) const OPER_UP: u8 = 6;
    pub(crate) const IFLA_LINKINFO: u16 = 18;
    pub(crate) const IFLA_GROUP: u16 = 27;
    pub(crate) const IFLA_NET_NS_FD: u16 = 28;
    pub(crate) const IFLA_NUM_TX_QUEUES: u16 = 31;
    pub(crate) const IFLA_NUM_RX_QUEUES: u16 = 32;
    pub(crate) const IFLA_INFO_KIND: u16 = 1;
    pub(crate) const IFLA_INFO_DATA: u16 = 2;
    pub(crate) const IFLA_INFO_SLAVE_KIND: u16 = 4;
    pub(crate) const IFLA_INFO_SLAVE_DATA: u16 = 5;
    pub(crate) const IFLA_BR_FORWARD_DELAY: u16 = 1;
    pub(crate) const IFLA_BR_MCAST_SNOOPING: u16 = 23;
    pub(crate) const IFLA_BRPORT_MODE: u16 = 4;
    pub(crate) const IFLA_BRPORT_LEARNING: u16 = 8;
    pub(crate) const IFLA_BRPORT_UNICAST_FLOOD: u16 = 9;
    pub(crate) const IFLA_BRPORT_FLUSH: u16 = 24;
    pub(crate) const IFLA_BRPORT_MCAST_FLOOD: u16 = 27;
    pub(crate) const IFLA_BRPORT_BCAST_FLOOD: u16 = 30;
    pub(crate) const IFLA_BRPORT_LOCKED: u16 = 39;
    pub(crate) const IFLA_VXLAN_ID: u16 = 1;
    pub(crate) const IFLA_VXLAN_LOCAL: u16 = 4;
    pub(crate) const IFLA_VXLAN_LEARNING: u16 = 7;
    pub(crate) const IFLA_VXLAN_PORT: u16 = 15;
    pub(crate) const VETH_INFO_PEER: u16 = 1;

    pub(crate) const IFF_UP: u32 = 1;

    pub(crate) const IFA_ADDRESS: u16 = 1;
    pub(crate) const IFA_LOCAL: u16 = 2;
    pub(crate) const IFA_BROADCAST: u16 = 4;
    pub(crate) const IFA_F_NODAD: u8 = 2;

    pub(crate) const RTA_DST: u16 = 1;
    pub(crate) const RTA_OIF: u16 = 4;
    pub(crate) const RTA_GATEWAY: u16 = 5;
    pub(crate) const RTA_PREFSRC: u16 = 7;
    pub(crate) const RTA_TABLE: u16 = 15;
    pub(crate) const RT_TABLE_MAIN: u32 = 254;
    pub(crate) const RTPROT_STATIC: u8 = 4;
    pub(crate) const RTN_UNICAST: u8 = 1;
    pub(crate) const RT_SCOPE_LINK: u8 = 253;
    pub(crate) const RT_SCOPE_NOWHERE: u8 = 255;
    pub(crate) const RTNH_F_ONLINK: u32 = 4;

    pub(crate) const FRA_SRC: u16 = 2;
    pub(crate) const FRA_PRIORITY: u16 = 6;
    pub(crate) const FRA_TABLE: u16 = 15;
    pub(crate) const FR_ACT_TO_TBL: u8 = 1;

    pub(crate) const NDA_DST: u16 = 1;
    pub(crate) const NDA_LLADDR: u16 = 2;
    pub(crate) const NUD_PERMANENT: u16 = 0x80;
    pub(crate) const NUD_NOARP: u16 = 0x40;
    pub(crate) const NTF_SELF: u8 = 2;
    pub(crate) const NTF_MASTER: u8 = 4;

    pub(crate) const AF_BRIDGE: u8 = 7;
    pub(crate) const AF_INET: u8 = 2;
    pub(crate) const AF_INET6: u8 = 10;
}

/// nftables. Kinds of messages carry the number of the subsystem.
pub(crate) mod nft {
    pub(crate) const SUBSYSTEM: u16 = 10;
    pub(crate) const BATCH_BEGIN: u16 = 16;
    pub(crate) const BATCH_END: u16 = 17;
    pub(crate) const NEWTABLE: u16 = SUBSYSTEM << 8;
    pub(crate) const GETTABLE: u16 = NEWTABLE | 1;
    pub(crate) const DELTABLE: u16 = NEWTABLE | 2;
    pub(crate) const NEWCHAIN: u16 = NEWTABLE | 3;
    pub(crate) const NEWRULE: u16 = NEWTABLE | 6;
    pub(crate) const GETRULE: u16 = NEWTABLE | 7;
    pub(crate) const NEWSET: u16 = NEWTABLE | 9;
    pub(crate) const NEWSETELEM: u16 = NEWTABLE | 12;
    pub(crate) const GETSETELEM: u16 = NEWTABLE | 13;
    pub(crate) const DELSETELEM: u16 = NEWTABLE | 14;
    pub(crate) const NEWGEN: u16 = NEWTABLE | 15;

    /// The size of `struct nfgenmsg`.
    pub(crate) const HEADER: usize = 4;
    pub(crate) const NFPROTO_INET: u8 = 1;
    pub(crate) const NFPROTO_BRIDGE: u8 = 7;

    pub(crate) const LIST_ELEM: u16 = 1;
    pub(crate) const TABLE_NAME: u16 = 1;
    pub(crate) const CHAIN_TABLE: u16 = 1;
    pub(crate) const CHAIN_NAME: u16 = 3;
    pub(crate) const CHAIN_HOOK: u16 = 4;
    pub(crate) const CHAIN_TYPE: u16 = 7;
    pub(crate) const HOOK_HOOKNUM: u16 = 1;
    pub(crate) const HOOK_PRIORITY: u16 = 2;
    pub(crate) const RULE_TABLE: u16 = 1;
    pub(crate) const RULE_CHAIN: u16 = 2;
    pub(crate) const RULE_HANDLE: u16 = 3;
    pub(crate) const RULE_EXPRESSIONS: u16 = 4;
    pub(crate) const EXPR_NAME: u16 = 1;
    pub(crate) const EXPR_DATA: u16 = 2;
    pub(crate) const SET_TABLE: u16 = 1;
    pub(crate) const SET_NAME: u16 = 2;
    pub(crate) const SET_FLAGS: u16 = 3;
    pub(crate) const SET_KEY_TYPE: u16 = 4;
    pub(crate) const SET_KEY_LEN: u16 = 5;
    pub(crate) const SET_DATA_TYPE: u16 = 6;
    pub(crate) const SET_DATA_LEN: u16 = 7;
    pub(crate) const SET_ID: u16 = 10;
    pub(crate) const SET_USERDATA: u16 = 13;
    pub(crate) const SET_DESC: u16 = 9;
    pub(crate) const SET_DESC_SIZE: u16 = 1;
    pub(crate) const SET_TIMEOUT_MS: u16 = 11;
    pub(crate) const SET_MAP: u32 = 8;
    pub(crate) const SET_TIMEOUT: u32 = 0x10;
    pub(crate) const SET_EVAL: u32 = 0x20;
    pub(crate) const ELEMS_TABLE: u16 = 1;
    pub(crate) const ELEMS_SET: u16 = 2;
    pub(crate) const ELEMS_ELEMENTS: u16 = 3;
    pub(crate) const ELEM_KEY: u16 = 1;
    pub(crate) const ELEM_DATA: u16 = 2;
    pub(crate) const DATA_VALUE: u16 = 1;
    pub(crate) const DATA_VERDICT: u16 = 2;
    pub(crate) const VERDICT_CODE: u16 = 1;
    pub(crate) const VERDICT_CHAIN: u16 = 2;
    /// Goes on in another chain, and not here after that.
    pub(crate) const GOTO: i32 = -4;
    /// The type of what a map of verdicts has.
    pub(crate) const VERDICTS: u32 = 0xffff_ff00;
}

/// Generic netlink: families are found by name.
pub(crate) mod generic {
    /// The size of `struct genlmsghdr`.
    pub(crate) const HEADER: usize = 4;
    pub(crate) const CONTROL: u16 = 16;
    pub(crate) const GETFAMILY: u8 = 3;
    pub(crate) const ATTR_FAMILY_ID: u16 = 1;
    pub(crate) const ATTR_FAMILY_NAME: u16 = 2;
}

/// WireGuard, by generic netlink.
pub(crate) mod wireguard {
    pub(crate) const GENL_NAME: &str = "wireguard";
    pub(crate) const GENL_VERSION: u8 = 1;
    pub(crate) const GET_DEVICE: u8 = 0;
    pub(crate) const SET_DEVICE: u8 = 1;
    pub(crate) const DEVICE_IFNAME: u16 = 2;
    pub(crate) const DEVICE_PRIVATE_KEY: u16 = 3;
    pub(crate) const DEVICE_LISTEN_PORT: u16 = 6;
    pub(crate) const DEVICE_PEERS: u16 = 8;
    pub(crate) const PEER_PUBLIC_KEY: u16 = 1;
    pub(crate) const PEER_FLAGS: u16 = 3;
    pub(crate) const PEER_ENDPOINT: u16 = 4;
    pub(crate) const PEER_ALLOWEDIPS: u16 = 9;
    pub(crate) const REMOVE_ME: u32 = 1;
    pub(crate) const REPLACE_ALLOWEDIPS: u32 = 2;
    pub(crate) const ALLOWEDIP_FAMILY: u16 = 1;
    pub(crate) const ALLOWEDIP_IPADDR: u16 = 2;
    pub(crate) const ALLOWEDIP_CIDR_MASK: u16 = 3;
}
