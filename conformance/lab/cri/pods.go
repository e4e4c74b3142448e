//go:build linux

package cri

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/penstock-project/penstock/conformance/lab/network"
)

type pod struct {
	id      string
	config  *runtimeapi.PodSandboxConfig
	created time.Time
	ns      *network.Namespace
	addr    netip.Addr // invalid if the pod is in the host's network
	stopped bool       // guarded by Server.mu
}

func (p *pod) state() runtimeapi.PodSandboxState {
	if p.stopped {
		return runtimeapi.PodSandboxState_SANDBOX_NOTREADY
	}
	return runtimeapi.PodSandboxState_SANDBOX_READY
}

// RunPodSandbox creates a pod's network.
func (s *Server) RunPodSandbox(_ context.Context, req *runtimeapi.RunPodSandboxRequest) (
	*runtimeapi.RunPodSandboxResponse, error) {
	config := req.GetConfig()
	for _, m := range config.GetPortMappings() {
		if m.GetHostPort() != 0 {
			return nil,
				status.Errorf(codes.Unimplemented,
					"hostPort %d: the lab has no host ports; use a Service of type LoadBalancer", m.GetHostPort())
		}
	}
	options := config.GetLinux().GetSecurityContext().GetNamespaceOptions()
	if options.GetPid() == runtimeapi.NamespaceMode_POD {
		return nil,
			status.Error(codes.Unimplemented, "shareProcessNamespace: the lab's containers do not share processes")
	}
	p := &pod{config: config, created: time.Now(), ns: s.Node}
	s.mu.Lock()
	p.id = s.newID()
	var err error
	if options.GetNetwork() != runtimeapi.NamespaceMode_NODE {
		p.addr, err = s.address()
	}
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if p.addr.IsValid() {
		if p.ns, err = s.network(p); err != nil {
			s.mu.Lock()
			delete(s.addresses, p.addr)
			s.mu.Unlock()
			return nil, err
		}
	} else if len(config.GetLinux().GetSysctls()) > 0 {
		return nil,
			status.Error(codes.InvalidArgument,
				"sysctls: not supported in the host's network, where they would apply to the node")
	}
	s.mu.Lock()
	s.pods[p.id] = p
	s.mu.Unlock()
	return &runtimeapi.RunPodSandboxResponse{PodSandboxId: p.id}, nil
}

func (s *Server) network(p *pod) (*network.Namespace, error) {
	ns, err := network.NewPod(s.Node, s.Plan, p.addr)
	if err != nil {
		return nil, err
	}
	for name, value := range p.config.GetLinux().GetSysctls() {
		if err := ns.Set(name, value); err != nil {
			ns.Close()
			return nil, status.Error(codes.InvalidArgument, err.Error())
		}
	}
	return ns, nil
}

// StopPodSandbox ends the remaining containers of a pod and removes its network.
func (s *Server) StopPodSandbox(_ context.Context,
	req *runtimeapi.StopPodSandboxRequest) (*runtimeapi.StopPodSandboxResponse, error) {
	s.mu.Lock()
	p := s.pods[req.GetPodSandboxId()]
	var waits []<-chan struct{}
	if p != nil {
		for _, c := range s.containers {
			if c.pod == p && c.process != nil && c.finished.IsZero() {
				_ = c.process.Kill()
				waits = append(waits, c.done)
			}
		}
	}
	s.mu.Unlock()
	for _, done := range waits {
		<-done
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if p == nil || p.stopped {
		return &runtimeapi.StopPodSandboxResponse{}, nil
	}
	p.stopped = true
	if p.addr.IsValid() {
		p.ns.Close()
		delete(s.addresses, p.addr)
	}
	return &runtimeapi.StopPodSandboxResponse{}, nil
}

// RemovePodSandbox ends a pod and removes its containers.
func (s *Server) RemovePodSandbox(ctx context.Context,
	req *runtimeapi.RemovePodSandboxRequest) (*runtimeapi.RemovePodSandboxResponse, error) {
	if _, err := s.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{
		PodSandboxId: req.GetPodSandboxId(),
	}); err != nil {
		return nil, err
	}
	s.mu.Lock()
	var left []string
	for id, c := range s.containers {
		if c.pod.id == req.GetPodSandboxId() {
			left = append(left, id)
		}
	}
	delete(s.pods, req.GetPodSandboxId())
	s.mu.Unlock()
	for _, id := range left {
		if _, err := s.RemoveContainer(ctx, &runtimeapi.RemoveContainerRequest{ContainerId: id}); err != nil {
			return nil, err
		}
	}
	return &runtimeapi.RemovePodSandboxResponse{}, nil
}

// PodSandboxStatus reports a pod's state and address.
func (s *Server) PodSandboxStatus(_ context.Context,
	req *runtimeapi.PodSandboxStatusRequest) (*runtimeapi.PodSandboxStatusResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.pods[req.GetPodSandboxId()]
	if p == nil {
		return nil, status.Errorf(codes.NotFound, "no pod %s", req.GetPodSandboxId())
	}
	net := &runtimeapi.PodSandboxNetworkStatus{}
	if p.addr.IsValid() {
		net.Ip = p.addr.String()
	}
	return &runtimeapi.PodSandboxStatusResponse{Status: &runtimeapi.PodSandboxStatus{
		Id: p.id, Metadata: p.config.GetMetadata(), State: p.state(), CreatedAt: p.created.UnixNano(), Network: net,
		Linux: &runtimeapi.LinuxPodSandboxStatus{
			Namespaces: &runtimeapi.Namespace{Options: p.config.GetLinux().GetSecurityContext().GetNamespaceOptions()},
		},
		Labels: p.config.GetLabels(), Annotations: p.config.GetAnnotations(),
	}}, nil
}

// ListPodSandbox lists the pods that match the filter.
func (s *Server) ListPodSandbox(_ context.Context,
	req *runtimeapi.ListPodSandboxRequest) (*runtimeapi.ListPodSandboxResponse, error) {
	f := req.GetFilter()
	s.mu.Lock()
	defer s.mu.Unlock()
	resp := &runtimeapi.ListPodSandboxResponse{}
	for _, p := range s.pods {
		if f.GetId() != "" && f.GetId() != p.id || f.GetState() != nil && f.GetState().GetState() != p.state() ||
			!selects(f.GetLabelSelector(), p.config.GetLabels()) {
			continue
		}
		resp.Items = append(resp.Items, &runtimeapi.PodSandbox{
			Id: p.id, Metadata: p.config.GetMetadata(), State: p.state(), CreatedAt: p.created.UnixNano(),
			Labels: p.config.GetLabels(), Annotations: p.config.GetAnnotations(),
		})
	}
	return resp, nil
}

func selects(selector, labels map[string]string) bool {
	for k, v := range selector {
		if labels[k] != v {
			return false
		}
	}
	return true
}

func (p *pod) files() map[string]string {
	dns := p.config.GetDnsConfig()
	var resolv strings.Builder
	for _, server := range dns.GetServers() {
		fmt.Fprintln(&resolv, "nameserver", server)
	}
	if list := dns.GetSearches(); len(list) > 0 {
		fmt.Fprintln(&resolv, "search", strings.Join(list, " "))
	}
	if list := dns.GetOptions(); len(list) > 0 {
		fmt.Fprintln(&resolv, "options", strings.Join(list, " "))
	}
	return map[string]string{
		"/etc/resolv.conf": resolv.String(),
		"/etc/hostname":    p.config.GetHostname() + "\n",
		"/etc/hosts": fmt.Sprintf("127.0.0.1 localhost\n::1 localhost\n%s %s\n", p.addr,
			p.config.GetHostname()),
		"/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
		"/etc/passwd":        "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\nnonroot:x:65532:65532:nonroot:/home:/bin/false\n",
		"/etc/group":         "root:x:0:\nnogroup:x:65534:\nnonroot:x:65532:\n",
	}
}
