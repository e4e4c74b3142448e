package labtest

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Place is a namespace for a test, with an administrator's client without a rate limit.
type Place struct {
	*testing.T
	*kubernetes.Clientset
	// REST is the clients' configuration.
	REST      *rest.Config
	Namespace string
}

// NewPlace creates a namespace in the cluster of a kubeconfig's context; "" is the current context.
// The namespace lasts until a test deletes it or the lab ends.
func NewPlace(t *testing.T, kubeconfig, context string) Place {
	t.Helper()
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		&clientcmd.ClientConfigLoadingRules{ExplicitPath: kubeconfig},
		&clientcmd.ConfigOverrides{CurrentContext: context}).ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	p := Place{T: t, REST: config}
	if p.Clientset, err = kubernetes.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	ns, err := p.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	p.Namespace = ns.Name
	return p
}

// Ready reports whether a pod is ready.
func Ready(s corev1.PodStatus) bool {
	for _, c := range s.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// Process returns the PID of the pod's process that has the argument arg. It finds the pod's
// processes by their HOSTNAME.
func (p Place) Process(pod corev1.Pod, arg string) int {
	p.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		p.Fatal(err)
	}
	for _, file := range files {
		env, _ := os.ReadFile(file) // fails if the process has ended
		line, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
		if bytes.Contains(append([]byte{0}, env...), []byte("\x00HOSTNAME="+pod.Name+"\x00")) &&
			bytes.Contains(line, []byte("\x00"+arg+"\x00")) {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			if err != nil {
				p.Fatal(err)
			}
			return pid
		}
	}
	p.Fatalf("processes of pod %s: got none with the argument %s, want one", pod.Name, arg)
	return 0
}
