//go:build linux

package cri

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/penstock-project/penstock/conformance/lab/image"
)

type container struct {
	id      string
	pod     *pod
	config  *runtimeapi.ContainerConfig
	image   image.Image
	created time.Time
	log     *logFile
	done    chan struct{}

	// Server.mu guards the following fields.
	process  *os.Process
	started  time.Time
	finished time.Time
	exit     int32
	reason   string
}

func (c *container) state() runtimeapi.ContainerState {
	switch {
	case !c.finished.IsZero():
		return runtimeapi.ContainerState_CONTAINER_EXITED
	case c.process != nil:
		return runtimeapi.ContainerState_CONTAINER_RUNNING
	}
	return runtimeapi.ContainerState_CONTAINER_CREATED
}

func notFound(id string) error { return status.Errorf(codes.NotFound, "no container %s", id) }

func (s *Server) find(id string) (*container, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.containers[id]
	if c == nil {
		return nil, notFound(id)
	}
	return c, nil
}

// CreateContainer adds a container, which StartContainer starts.
func (s *Server) CreateContainer(_ context.Context,
	req *runtimeapi.CreateContainerRequest) (*runtimeapi.CreateContainerResponse, error) {
	config := req.GetConfig()
	img, err := s.Images.Find(config.GetImage().GetImage())
	if err != nil {
		return nil, status.Error(codes.NotFound, err.Error())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.pods[req.GetPodSandboxId()]
	if p == nil || p.stopped {
		return nil, status.Errorf(codes.NotFound, "no pod %s", req.GetPodSandboxId())
	}
	c := &container{
		id: s.newID(), pod: p, config: config, image: img, created: time.Now(), done: make(chan struct{}),
		log: &logFile{path: filepath.Join(p.config.GetLogDirectory(), config.GetLogPath())},
	}
	s.containers[c.id] = c
	return &runtimeapi.CreateContainerResponse{ContainerId: c.id}, nil
}

// StartContainer runs the container's program.
func (s *Server) StartContainer(_ context.Context,
	req *runtimeapi.StartContainerRequest) (*runtimeapi.StartContainerResponse, error) {
	c, err := s.find(req.GetContainerId())
	if err != nil {
		return nil, err
	}
	if err := s.start(c); err != nil {
		return nil, status.Error(codes.Unknown, err.Error())
	}
	return &runtimeapi.StartContainerResponse{}, nil
}

// StopContainer sends the stop signal, and kills the program after the grace period.
func (s *Server) StopContainer(ctx context.Context,
	req *runtimeapi.StopContainerRequest) (*runtimeapi.StopContainerResponse, error) {
	s.mu.Lock()
	c := s.containers[req.GetContainerId()]
	running := c != nil && c.process != nil && c.finished.IsZero()
	s.mu.Unlock()
	if !running { // the CRI demands success for a stopped container
		return &runtimeapi.StopContainerResponse{}, nil
	}
	if req.GetTimeout() > 0 {
		_ = c.process.Signal(stopSignal(c.config))
		select {
		case <-c.done:
			return &runtimeapi.StopContainerResponse{}, nil
		case <-ctx.Done():
			return nil, status.FromContextError(ctx.Err()).Err()
		case <-time.After(time.Duration(req.GetTimeout()) * time.Second):
		}
	}
	_ = c.process.Kill()
	select {
	case <-c.done:
		return &runtimeapi.StopContainerResponse{}, nil
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	}
}

func stopSignal(config *runtimeapi.ContainerConfig) syscall.Signal {
	switch config.GetStopSignal() {
	case runtimeapi.Signal_SIGINT:
		return syscall.SIGINT
	case runtimeapi.Signal_SIGQUIT:
		return syscall.SIGQUIT
	case runtimeapi.Signal_SIGHUP:
		return syscall.SIGHUP
	case runtimeapi.Signal_SIGUSR1:
		return syscall.SIGUSR1
	case runtimeapi.Signal_SIGUSR2:
		return syscall.SIGUSR2
	case runtimeapi.Signal_SIGKILL:
		return syscall.SIGKILL
	}
	return syscall.SIGTERM
}

// RemoveContainer ends a running container, and deletes its files.
func (s *Server) RemoveContainer(_ context.Context,
	req *runtimeapi.RemoveContainerRequest) (*runtimeapi.RemoveContainerResponse, error) {
	s.mu.Lock()
	c := s.containers[req.GetContainerId()]
	delete(s.containers, req.GetContainerId())
	running := c != nil && c.process != nil && c.finished.IsZero()
	if running {
		_ = c.process.Kill()
	}
	s.mu.Unlock()
	if running {
		<-c.done
	}
	if c != nil {
		for _, dir := range []string{s.root(c), s.layer(c)} {
			if err := os.RemoveAll(dir); err != nil {
				return nil, err
			}
		}
	}
	return &runtimeapi.RemoveContainerResponse{}, nil
}

// ListContainers lists the containers that match the filter.
func (s *Server) ListContainers(_ context.Context,
	req *runtimeapi.ListContainersRequest) (*runtimeapi.ListContainersResponse, error) {
	f := req.GetFilter()
	s.mu.Lock()
	defer s.mu.Unlock()
	resp := &runtimeapi.ListContainersResponse{}
	for _, c := range s.containers {
		if f.GetId() != "" && f.GetId() != c.id || f.GetState() != nil && f.GetState().GetState() != c.state() ||
			f.GetPodSandboxId() != "" && f.GetPodSandboxId() != c.pod.id ||
			!selects(f.GetLabelSelector(), c.config.GetLabels()) {
			continue
		}
		resp.Containers = append(resp.Containers, &runtimeapi.Container{
			Id: c.id, PodSandboxId: c.pod.id, Metadata: c.config.GetMetadata(), Image: c.config.GetImage(),
			ImageRef: c.config.GetImage().GetImage(),
			ImageId:  c.config.GetImage().GetImage(), State: c.state(), CreatedAt: c.created.UnixNano(),
			Labels: c.config.GetLabels(), Annotations: c.config.GetAnnotations(),
		})
	}
	return resp, nil
}

// ContainerStatus reports a container's state, exit code and reason.
func (s *Server) ContainerStatus(_ context.Context,
	req *runtimeapi.ContainerStatusRequest) (*runtimeapi.ContainerStatusResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.containers[req.GetContainerId()]
	if c == nil {
		return nil, notFound(req.GetContainerId())
	}
	st := &runtimeapi.ContainerStatus{
		Id: c.id, Metadata: c.config.GetMetadata(), State: c.state(), CreatedAt: c.created.UnixNano(),
		Image: c.config.GetImage(), ImageRef: c.config.GetImage().GetImage(), ImageId: c.config.GetImage().GetImage(),
		Labels: c.config.GetLabels(), Annotations: c.config.GetAnnotations(), Mounts: c.config.GetMounts(),
		LogPath:  c.log.path,
		ExitCode: c.exit, Reason: c.reason,
	}
	if !c.started.IsZero() {
		st.StartedAt = c.started.UnixNano()
	}
	if !c.finished.IsZero() {
		st.FinishedAt = c.finished.UnixNano()
	}
	return &runtimeapi.ContainerStatusResponse{Status: st}, nil
}

// UpdateContainerResources does nothing, because resources have no limits.
func (s *Server) UpdateContainerResources(context.Context,
	*runtimeapi.UpdateContainerResourcesRequest) (*runtimeapi.UpdateContainerResourcesResponse, error) {
	return &runtimeapi.UpdateContainerResourcesResponse{}, nil
}

// UpdatePodSandboxResources does nothing, because resources have no limits.
func (s *Server) UpdatePodSandboxResources(context.Context,
	*runtimeapi.UpdatePodSandboxResourcesRequest) (*runtimeapi.UpdatePodSandboxResourcesResponse, error) {
	return &runtimeapi.UpdatePodSandboxResourcesResponse{}, nil
}

// ReopenContainerLog starts a new file after the kubelet has renamed the old one.
func (s *Server) ReopenContainerLog(_ context.Context,
	req *runtimeapi.ReopenContainerLogRequest) (*runtimeapi.ReopenContainerLogResponse, error) {
	c, err := s.find(req.GetContainerId())
	if err != nil {
		return nil, err
	}
	if err := c.log.open(); err != nil {
		return nil, err
	}
	return &runtimeapi.ReopenContainerLogResponse{}, nil
}

func (c *container) user() (uid, gid int64) {
	security := c.config.GetLinux().GetSecurityContext()
	uid = c.image.User
	if security.GetRunAsUser() != nil {
		uid = security.GetRunAsUser().GetValue()
	}
	return uid, security.GetRunAsGroup().GetValue()
}

func (c *container) environment() []string {
	set := map[string]bool{}
	var env []string
	for _, kv := range c.config.GetEnvs() {
		set[kv.GetKey()] = true
		env = append(env, kv.GetKey()+"="+string(kv.GetValue()))
	}
	defaults := append([]string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME=/root",
		"HOSTNAME=" + c.pod.config.GetHostname(),
	}, c.image.Env...)
	for i := len(defaults) - 1; i >= 0; i-- { // reversed, because the image's variables override the defaults
		if name, _, _ := strings.Cut(defaults[i], "="); !set[name] {
			set[name] = true
			env = append(env, defaults[i])
		}
	}
	return env
}

// arguments follows Kubernetes' rules for command, args and the image's entry point.
func (c *container) arguments() []string {
	command, args := c.config.GetCommand(), c.config.GetArgs()
	if len(command) > 0 {
		return append(append([]string{}, command...), args...)
	}
	if len(args) == 0 {
		args = c.image.Args
	}
	return append(append([]string{c.image.At()}, c.image.First...), args...)
}
