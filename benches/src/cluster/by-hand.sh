#!/bin/sh
# by-hand.sh: a cluster of one machine that controls and one that works, as a
# person makes it with kubeadm who knows what to do and types at once: one
# machine after the other, one command after the other. What it says are the
# moments, as `mark SECONDS NAME`.
#
# STRATA, STRATA_DATA_DIR: the daemon that has the machines
# BUNDLE, VERSION, PAUSE: programs and images of Kubernetes, and their tags
set -eu
top=/var/lib/strata-kubernetes
pods=10.244.0.0/16

mark() { printf 'mark %s %s\n' "$(date +%s.%N)" "$1"; }
field() { "$STRATA" spawn show "$1" -o json | sed -n "s/.*\"$2\": \"\(.*\)\",*/\1/p"; }
# on MACHINE WORDS…: a command of the machine's own node
on() {
  eval "node=\$node_$1"
  shift
  STRATA_NODE=$node STRATA_CREDENTIALS=$STRATA_DATA_DIR/client "$STRATA" "$@"
}
# run MACHINE NAME SCRIPT: on the machine, to its end
run() { on "$1" cell start kubernetes "$2" --follow -- sh -c "PATH=$top/bundle/bin:\$PATH; $3"; }

for machine in hand1 hand2; do
  "$STRATA" spawn create "$machine" >/dev/null
  eval "node_$machine=$(field "$machine" endpoint)"
  eval "address_$machine=$(field "$machine" address | sed 's#/.*##')"
  eval "lib_$machine=$STRATA_DATA_DIR/node/_machines/folders/$(field "$machine" id)/lib/strata-kubernetes"
done
trap '"$STRATA" spawn destroy hand1 hand2 >/dev/null 2>&1 || true' EXIT

# prepare MACHINE NUMBER PEER-ADDRESS PEER-NUMBER: until it has a network for
# pods, containerd and the images
prepare() {
  eval "own=\$address_$1 lib=\$lib_$1"
  mkdir -p "$lib/etc"
  cp -al "$BUNDLE" "$lib/bundle" 2>/dev/null || cp -a "$BUNDLE" "$lib/bundle"
  cat > "$lib/containerd.toml" <<END
version = 3
[plugins.'io.containerd.cri.v1.images']
  snapshotter = 'overlayfs'
  [plugins.'io.containerd.cri.v1.images'.pinned_images]
    sandbox = 'strata.internal/kubernetes/pause:$PAUSE'
[plugins.'io.containerd.cri.v1.runtime']
  restrict_oom_score_adj = true
  disable_apparmor = true
  [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
    runtime_type = 'io.containerd.runc.v2'
    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
      BinaryName = '$top/bundle/bin/runc'
  [plugins.'io.containerd.cri.v1.runtime'.cni]
    bin_dirs = ['$top/bundle/cni']
    conf_dir = '/etc/cni/net.d'
END
  cat > "$lib/prepare" <<END
set -eu
mount --make-rshared /
mkdir -p /etc/kubernetes /etc/cni/net.d
mount --bind $top/etc /etc/kubernetes
echo 1 > /proc/sys/net/ipv4/ip_forward
mtu=\$((\$(cat /sys/class/net/eth0/mtu) - 50))
cat > /etc/cni/net.d/10-bench.conflist <<CNI
{"cniVersion":"1.0.0","name":"bench","plugins":[
 {"type":"bridge","bridge":"cni0","isGateway":true,"hairpinMode":true,"mtu":\$mtu,
  "ipam":{"type":"host-local","dataDir":"/run/cni-ipam","ranges":[[{"subnet":"10.244.$2.0/24"}]],"routes":[{"dst":"0.0.0.0/0"}]}},
 {"type":"portmap","capabilities":{"portMappings":true}}]}
CNI
mac() { printf '0a:58:%02x:%02x:%02x:%02x' \$(echo \$1 | tr . ' '); }
ip link add vx0 type vxlan id 7443 dstport 8472 local $own dev eth0 nolearning
ip link set vx0 address \$(mac $own) mtu \$mtu up
ip addr add 10.244.$2.0/32 dev vx0
bridge fdb replace \$(mac $3) dev vx0 dst $3 self permanent
ip neigh replace 10.244.$4.0 lladdr \$(mac $3) dev vx0 nud permanent
ip route replace 10.244.$4.0/24 via 10.244.$4.0 dev vx0 onlink
nft 'table inet bench-pods { chain post { type nat hook postrouting priority srcnat; ip saddr 10.244.$2.0/24 ip daddr != $pods oifname "eth0" masquerade; }; }'
END
  cat > "$lib/run-kubelet" <<END
until [ -s /var/lib/kubelet/config.yaml ] && [ -s /var/lib/kubelet/kubeadm-flags.env ]; do sleep 0.1; done
. /var/lib/kubelet/kubeadm-flags.env
exec kubelet --kubeconfig=/etc/kubernetes/kubelet.conf --bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf \
  --config=/var/lib/kubelet/config.yaml \$KUBELET_KUBEADM_ARGS
END
  on "$1" cell allocate kubernetes >/dev/null
  run "$1" prepare "exec sh $top/prepare" >&2
  on "$1" cell start kubernetes containerd -- \
    sh -c "PATH=$top/bundle/bin:\$PATH; exec containerd --config $top/containerd.toml" >/dev/null
  on "$1" cell start kubernetes kubelet -- \
    sh -c "PATH=$top/bundle/bin:\$PATH; . $top/run-kubelet" >/dev/null
  run "$1" import "until ctr version >/dev/null 2>&1; do sleep 0.05; done
    exec ctr -n k8s.io images import --local $top/bundle/images.tar" >&2
}

mark prepare
prepare hand1 0 "$address_hand2" 1
prepare hand2 1 "$address_hand1" 0

registration() {
  cat <<END
nodeRegistration:
  name: $1
  criSocket: unix:///run/containerd/containerd.sock
  imagePullPolicy: Never
  ignorePreflightErrors: [SystemVerification]
  kubeletExtraArgs: [{name: node-ip, value: $2}]
END
}
cat > "$lib_hand1/init.yaml" <<END
apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
bootstrapTokens:
- token: abcdef.0123456789abcdef
  groups: [system:bootstrappers:kubeadm:default-node-token]
localAPIEndpoint: {advertiseAddress: $address_hand1, bindPort: 6443}
$(registration hand1 "$address_hand1")
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: $VERSION
imageRepository: strata.internal/kubernetes
encryptionAlgorithm: ECDSA-P256
networking: {serviceSubnet: 10.96.0.0/12, dnsDomain: cluster.local}
controllerManager: {extraArgs: [{name: allocate-node-cidrs, value: "false"}]}
---
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cgroupDriver: cgroupfs
failCgroupV1: false
failSwapOn: false
oomScoreAdj: 0
makeIPTablesUtilChains: false
imageGCHighThresholdPercent: 100
evictionHard: {memory.available: 100Mi, nodefs.available: "0%", imagefs.available: "0%", nodefs.inodesFree: "0%"}
enforceNodeAllocatable: [pods]
---
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: nftables
clusterCIDR: $pods
conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
END
cat > "$lib_hand2/join.yaml" <<END
apiVersion: kubeadm.k8s.io/v1beta4
kind: JoinConfiguration
discovery:
  bootstrapToken:
    apiServerEndpoint: $address_hand1:6443
    token: abcdef.0123456789abcdef
    unsafeSkipCAVerification: true
$(registration hand2 "$address_hand2")
END
mark init
run hand1 init "exec kubeadm init --config $top/init.yaml" >&2
mark join
run hand2 join "exec kubeadm join --config $top/join.yaml" >&2
mark wait
kubectl="$BUNDLE/bin/kubectl --kubeconfig $lib_hand1/etc/admin.conf"
until $kubectl wait --for=condition=Ready node/hand1 node/hand2 --timeout=120s >&2; do sleep 0.1; done
mark ready
