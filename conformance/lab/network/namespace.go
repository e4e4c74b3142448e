//go:build linux

package network

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Namespace is a network namespace. It ends when it is closed and no process is left inside.
type Namespace struct {
	file *os.File
	link *netlink.Handle
}

// New makes an empty namespace whose loopback is up and which forwards packets.
func New() (*Namespace, error) {
	type made struct {
		file *os.File
		err  error
	}
	done := make(chan made)
	go func() {
		// The thread stays in the new namespace, so it must end with this goroutine: it is never unlocked.
		runtime.LockOSThread()
		var m made
		if m.err = unix.Unshare(unix.CLONE_NEWNET); m.err == nil {
			m.err = settings()
		}
		if m.err == nil {
			m.file, m.err = os.Open(fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid()))
		}
		done <- m
	}()
	m := <-done
	if m.err != nil {
		return nil, fmt.Errorf("network namespace: %w", m.err)
	}
	return open(m.file)
}

// settings prepares the namespace of the calling thread. Values are the namespace's own and end with it.
func settings() error {
	for file, value := range map[string]string{
		"ipv4/ip_forward": "1",
		// A process without root's rights is root of its own namespaces only: ports below 1024 are open to all there.
		"ipv4/ip_unprivileged_port_start": "0",
		// Replies of a Service come from where its packets went, which need not be the way that routes say.
		"ipv4/conf/all/rp_filter":     "0",
		"ipv4/conf/default/rp_filter": "0",
		// Pods have addresses of version 4 only.
		"ipv6/conf/default/accept_dad": "0",
	} {
		if err := os.WriteFile("/proc/sys/net/"+file, []byte(value), 0); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

// Current is the namespace of the calling process.
func Current() (*Namespace, error) {
	file, err := os.Open("/proc/self/ns/net")
	if err != nil {
		return nil, fmt.Errorf("network namespace: %w", err)
	}
	return open(file)
}

func open(file *os.File) (*Namespace, error) {
	h, err := netlink.NewHandleAt(netns.NsHandle(file.Fd()), unix.NETLINK_ROUTE)
	if err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("network namespace: %w", err)
	}
	n := &Namespace{file: file, link: h}
	lo, err := h.LinkByName("lo")
	if err == nil {
		err = h.LinkSetUp(lo)
	}
	if err != nil {
		n.Close()
		return nil, fmt.Errorf("loopback: %w", err)
	}
	return n, nil
}

// Set sets a kernel parameter of the namespace, such as net.core.somaxconn. Other parameters are the whole machine's: they
// are refused.
func (n *Namespace) Set(name, value string) error {
	if !strings.HasPrefix(name, "net.") || strings.ContainsRune(name, '/') {
		return fmt.Errorf("sysctl %s: only those of the network are a pod's own", name)
	}
	return n.Do(func() error {
		if err := os.WriteFile("/proc/sys/"+strings.ReplaceAll(name, ".", "/"), []byte(value), 0); err != nil {
			return fmt.Errorf("sysctl %s: %w", name, err)
		}
		return nil
	})
}

// Close lets go of the namespace.
func (n *Namespace) Close() {
	n.link.Close()
	_ = n.file.Close()
}

// Do calls f on a thread of its own that is inside the namespace. Processes that f starts are inside as well; goroutines
// that it starts are not.
func (n *Namespace) Do(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		if err := unix.Setns(int(n.file.Fd()), unix.CLONE_NEWNET); err != nil {
			done <- fmt.Errorf("enter network namespace: %w", err)
			return
		}
		done <- f()
	}()
	return <-done
}

// up finds an interface and gives it an address, if it is to have one.
func (n *Namespace) up(name string, addr netip.Addr) (netlink.Link, error) {
	l, err := n.link.LinkByName(name)
	if err != nil {
		return nil, fmt.Errorf("interface %s: %w", name, err)
	}
	if addr.IsValid() {
		if err := n.link.AddrAdd(l, &netlink.Addr{IPNet: ipNet(netip.PrefixFrom(addr, 32))}); err != nil {
			return nil, fmt.Errorf("address %s of interface %s: %w", addr, name, err)
		}
	}
	if err := n.link.LinkSetUp(l); err != nil {
		return nil, fmt.Errorf("interface %s: %w", name, err)
	}
	return l, nil
}

// route sends what is for dst through l, by way of gateway if that is valid, from the address src if that is valid.
func (n *Namespace) route(l netlink.Link, dst netip.Prefix, gateway, src netip.Addr) error {
	r := &netlink.Route{LinkIndex: l.Attrs().Index, Dst: ipNet(dst), Scope: netlink.SCOPE_LINK}
	if gateway.IsValid() {
		r.Gw, r.Scope = gateway.AsSlice(), netlink.SCOPE_UNIVERSE
		r.SetFlag(netlink.FLAG_ONLINK)
	}
	if src.IsValid() {
		r.Src = src.AsSlice()
	}
	if err := n.link.RouteAdd(r); err != nil {
		return fmt.Errorf("route to %s by %s: %w", dst, l.Attrs().Name, err)
	}
	return nil
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), 32)}
}
