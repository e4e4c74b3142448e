package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/penstock-project/penstock/discovery/filesystem"
	"github.com/penstock-project/penstock/discovery/objectid"
)

const (
	// installedIn is the namespace that the docs install the chart penstock into.
	installedIn = "penstock-system"
	// podLabels select the pods of the chart penstock.
	podLabels = "app.kubernetes.io/name=penstock"
	// adminPort is where they serve the admin pages, to their own pod alone.
	adminPort = 9091
	// podsTimeout bounds each call of the API server and of a pod.
	podsTimeout = 15 * time.Second
)

// cluster finds the penstock of a Kubernetes cluster, for commands that query it.
type cluster struct {
	kubeconfig, namespace string
	disk                  filesystem.Disk
}

func (c *cluster) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&c.kubeconfig, "kubeconfig", "",
		"query the penstock that runs in the cluster of this file, by port-forwarding to its pods (default: "+
			"$KUBECONFIG, else ~/.kube/config, if no -f, --state and --http is given)")
	f.StringVar(&c.namespace, "penstock-namespace", installedIn, "namespace of these pods")
}

// file returns the kubeconfig to use: the flag's, else the first that exists of $KUBECONFIG and
// ~/.kube/config; "" without one.
func (c *cluster) file() string {
	if c.kubeconfig != "" {
		return c.kubeconfig
	}
	candidates := filepath.SplitList(os.Getenv("KUBECONFIG"))
	if len(candidates) == 0 {
		if home, err := os.UserHomeDir(); err == nil {
			candidates = []string{filepath.Join(home, ".kube", "config")}
		}
	}
	for _, path := range candidates {
		if _, err := c.disk.Read(path); err == nil {
			return path
		}
	}
	return ""
}

// pods returns the ready processes of the cluster, sorted by name. Each call of one opens a
// connection to its admin port by the API server, as `kubectl port-forward` does, and no port here.
func (c *cluster) pods(ctx context.Context) ([]running, error) {
	config, _, err := clusterAt(&c.disk, c.file())
	if err != nil {
		return nil, err
	}
	config.APIPath, config.GroupVersion = "/api", &schema.GroupVersion{Version: "v1"}
	config.NegotiatedSerializer = serializer.WithoutConversionCodecFactory{CodecFactory: scheme.Codecs}
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, err
	}
	var list corev1.PodList
	bounded, cancel := context.WithTimeout(ctx, podsTimeout)
	defer cancel()
	err = client.Get().Namespace(c.namespace).Resource("pods").
		VersionedParams(&metav1.ListOptions{LabelSelector: podLabels, Limit: 100}, scheme.ParameterCodec).
		Do(bounded).Into(&list)
	if err != nil {
		return nil, fmt.Errorf("pods of penstock in namespace %s: %w", c.namespace, err)
	}
	var out []running
	for i := range list.Items {
		pod := &list.Items[i]
		ready := slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		})
		if !ready || pod.DeletionTimestamp != nil {
			continue
		}
		to := client.Post().Namespace(pod.Namespace).Resource("pods").Name(pod.Name).SubResource("portforward")
		out = append(out,
			running{address: objectid.Join(pod.Namespace, pod.Name), dial: func(context.Context) (net.Conn, error) {
				return forward(config, to)
			}})
	}
	slices.SortFunc(out, func(a, b running) int { return strings.Compare(a.address, b.address) })
	if len(out) == 0 {
		return nil, fmt.Errorf("namespace %s has no ready pod with the label %s (%d are not ready): name the one that "+
			"penstock is installed in with --penstock-namespace", c.namespace, podLabels, len(list.Items))
	}
	return out, nil
}

// forward opens a connection to the admin port of a pod.
func forward(config *rest.Config, to *rest.Request) (net.Conn, error) {
	transport, upgrader, err := spdy.RoundTripperFor(config)
	if err != nil {
		return nil, err
	}
	old := spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: transport}, http.MethodPost, to.URL())
	websocket, err := portforward.NewSPDYOverWebsocketDialerForStreaming(to.URL(), config)
	if err != nil {
		return nil, err
	}
	dialer := portforward.NewFallbackDialerForStreaming(websocket, old, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
	conn, _, err := dialer.Dial(portforward.PortForwardProtocolV1Name)
	if err != nil {
		return nil, err
	}
	header := http.Header{}
	header.Set(corev1.PortHeader, strconv.Itoa(adminPort))
	header.Set(corev1.PortForwardRequestIDHeader, "0")
	header.Set(corev1.StreamType, corev1.StreamTypeError)
	problems, err := conn.CreateStream(header)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	_ = problems.Close() // of our side: nothing is written to it
	header.Set(corev1.StreamType, corev1.StreamTypeData)
	data, err := conn.CreateStream(header)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return &forwarded{data, conn}, nil
}

// forwarded is a forwarded port as a connection. It has no deadlines: callers end it by Close.
type forwarded struct {
	httpstream.Stream
	conn httpstream.Connection
}

func (f *forwarded) Close() error                     { return errors.Join(f.Stream.Close(), f.conn.Close()) }
func (f *forwarded) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (f *forwarded) RemoteAddr() net.Addr             { return &net.TCPAddr{Port: adminPort} }
func (f *forwarded) SetDeadline(time.Time) error      { return nil }
func (f *forwarded) SetReadDeadline(time.Time) error  { return nil }
func (f *forwarded) SetWriteDeadline(time.Time) error { return nil }

// inCluster reports whether the command queries a cluster: no files, state and address are given.
func (a *target) inCluster() bool {
	return a.http == "" && len(a.paths) == 0 && a.state == "" && a.cluster.file() != ""
}

// replicas returns all processes that are queried: one, except in a cluster.
func (a *target) replicas(ctx context.Context) ([]running, error) {
	if a.inCluster() {
		return a.cluster.pods(ctx)
	}
	at, err := a.running(ctx)
	return []running{at}, err
}

// running returns the process that is queried; in a cluster the first one.
func (a *target) running(ctx context.Context) (running, error) {
	if a.http != "" {
		return runningAt(a.http), nil
	}
	if a.inCluster() {
		pods, err := a.cluster.pods(ctx)
		if err != nil {
			return running{}, err
		}
		return pods[0], nil
	}
	if err := a.exist(); err != nil {
		return running{}, err
	}
	dir, err := a.stateDir()
	if errors.Is(err, errNoFiles) {
		err = fmt.Errorf("%w, or --kubeconfig FILE for the penstock of a cluster", err)
	}
	return runningFor(dir), err
}
