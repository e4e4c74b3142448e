package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/penstock-project/penstock/discovery/filesystem"
	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/multicluster/hub"
)

const (
	installedIn = "penstock-system"
	podLabels   = "app.kubernetes.io/name=penstock"
	// adminPort is the admin pages' port, which listens on the pod's loopback address alone.
	adminPort   = 9091
	podsTimeout = 15 * time.Second
)

type cluster struct {
	kubeconfig, context, namespace string
	disk                           filesystem.Disk
}

func (c *cluster) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&c.kubeconfig, "kubeconfig", "",
		"query the penstock that runs in the cluster of this file, by port-forwarding to its pods (default: "+
			"$KUBECONFIG, else ~/.kube/config, if no -f, --state and --http is given)")
	f.StringVar(&c.context, "context", "", "context of the kubeconfig to use (default: its current one)")
	_ = cmd.RegisterFlagCompletionFunc("context", suggest(c.contexts))
	f.StringVar(&c.namespace, "penstock-namespace", installedIn, "namespace of these pods")
}

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

// config inlines the kubeconfig's files, because port-forwarding does not use hub.ClientConfig's
// transports, which read them.
func (c *cluster) config() (*rest.Config, error) {
	file := c.file()
	_, loaded, err := hub.Kubeconfig(&c.disk, file)
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig %s: %w", file, err)
	}
	name := cmp.Or(c.context, loaded.CurrentContext)
	if c.context != "" && loaded.Contexts[name] == nil {
		return nil, fmt.Errorf("--kubeconfig %s: it has no context %s: kubectl config get-contexts lists them", file,
			name)
	}
	if at := loaded.Contexts[name]; at != nil {
		if server := loaded.Clusters[at.Cluster]; server != nil {
			err = c.inline(&server.CertificateAuthority, &server.CertificateAuthorityData)
		}
		if user := loaded.AuthInfos[at.AuthInfo]; user != nil {
			token := []byte(user.Token)
			err = errors.Join(err, c.inline(&user.ClientCertificate, &user.ClientCertificateData),
				c.inline(&user.ClientKey, &user.ClientKeyData), c.inline(&user.TokenFile, &token))
			user.Token = strings.TrimSpace(string(token))
		}
	}
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig %s: %w", file, err)
	}
	config, err := clientcmd.NewNonInteractiveClientConfig(*loaded, name, &clientcmd.ConfigOverrides{}, nil).
		ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig %s: %w", file, err)
	}
	config.UserAgent = "penstock"
	return config, nil
}

func (c *cluster) inline(path *string, data *[]byte) (err error) {
	if *path != "" && len(*data) == 0 {
		*data, err = c.disk.Read(*path)
	}
	*path = ""
	return err
}

// pods connects to the pods' admin ports through the API server, without a local port.
func (c *cluster) pods(ctx context.Context) ([]running, error) {
	config, err := c.config()
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
			running{address: objectid.Join(pod.Namespace, pod.Name), dial: func(ctx context.Context) (net.Conn, error) {
				return forwardWithin(ctx, config, to)
			}})
	}
	slices.SortFunc(out, func(a, b running) int { return strings.Compare(a.address, b.address) })
	if len(out) == 0 {
		return nil, fmt.Errorf("namespace %s has no ready pod with the label %s (%d are not ready): name the one that "+
			"penstock is installed in with --penstock-namespace", c.namespace, podLabels, len(list.Items))
	}
	return out, nil
}
