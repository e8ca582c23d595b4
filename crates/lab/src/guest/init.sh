#!/bin/sh
# The first process of a guest that runs one cell of a lab: makes a home for evenkeel, runs it,
# leaves its exit code, switches the guest off. The files of the exchange are /tmp of the host's
# view; what evenkeel says goes into files there, because writing to a terminal would let the
# host's timing in.
#
# Principles: whatever fails says so on the console; the guest always ends. Non-goals: anything
# else that an init does.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/ LANG=C

# Without root on the host, its set-user-ID programs belong to nobody here: they stay ours.
[ "$1" = again ] || exec setpriv --no-new-privs "$0" again

off() {
  echo o >/proc/sysrq-trigger
  sleep 60
}
trap off EXIT
say() { echo "evenkeel init: $*" >/dev/console; }

mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t tmpfs tmpfs /run
mkdir -p /run/exchange /run/root/lib/modules
mount -t hostfs -o /tmp exchange /run/exchange 2>/dev/null ||
  mount -t hostfs -o hostfs=/tmp exchange /run/exchange || { say "no exchange"; exit; }
mount -t tmpfs tmpfs /tmp
mountpoint -q /dev || mount -t devtmpfs dev /dev
mkdir -p /dev/pts /dev/shm /dev/net
[ -c /dev/net/tun ] || mknod /dev/net/tun c 10 200
[ ! -d /sys/fs/bpf ] || mount -t bpf bpf /sys/fs/bpf 2>/dev/null
[ ! -d /sys/fs/cgroup ] || mount -t cgroup2 cgroup /sys/fs/cgroup 2>/dev/null

# Debian's kernel has modules, where the package puts them; one process loads them all.
modules=/usr/lib/uml/modules/$(uname -r)
if [ -d "$modules" ]; then
  ln -s "$modules" /run/root/lib/modules/
  printf '#!/bin/sh\nexec modprobe -d /run/root "$@"\n' >/run/modprobe
  chmod +x /run/modprobe
  echo /run/modprobe >/proc/sys/kernel/modprobe
  modprobe -d /run/root -aq \
    sch_cake sch_fq_codel sch_fq sch_htb sch_sfq sch_tbf sch_netem sch_ingress sch_prio sch_red \
    ifb veth tun act_mirred act_police act_skbedit act_gact act_ctinfo act_connmark act_bpf \
    act_nat act_pedit cls_u32 cls_matchall cls_bpf cls_fw cls_flower cls_basic cls_flow \
    nf_conntrack nf_nat ip_tables iptable_nat iptable_mangle xt_MASQUERADE xt_mark xt_connmark \
    xt_DSCP nf_tables nft_masq nft_ct tcp_bbr
fi
ip link set lo up

# Memory comes in one piece: in virtual time each system call takes 1 ns, so that a program that
# asks for memory once more would measure something else.
export MALLOC_ARENA_MAX=1 MALLOC_TOP_PAD_=134217728 MALLOC_TRIM_THRESHOLD_=536870912
export MALLOC_MMAP_THRESHOLD_=33554432

cd /run/exchange || exit
./evenkeel-lab lab inside /run/exchange </dev/null >/run/exchange/output 2>/run/exchange/errors
echo $? >/run/exchange/status
