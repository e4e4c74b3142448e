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

// Place is a namespace of a test's own in one cluster, with clients that may do anything there and are not slowed down.
type Place struct {
	*testing.T
	*kubernetes.Clientset
	// REST is what the clients are made of.
	REST *rest.Config
	// Namespace is the namespace's name.
	Namespace string
}

// NewPlace makes a namespace in the cluster of a kubeconfig's context; "" is the current one. It ends with the lab, if nobody deletes it
// before.
func NewPlace(t *testing.T, kubeconfig, context string) Place {
	t.Helper()
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		&clientcmd.ClientConfigLoadingRules{ExplicitPath: kubeconfig}, &clientcmd.ConfigOverrides{CurrentContext: context}).ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	p := Place{T: t, REST: config}
	if p.Clientset, err = kubernetes.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	ns, err := p.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	p.Namespace = ns.Name
	return p
}

// Ready says whether a pod is.
func Ready(s corev1.PodStatus) bool {
	for _, c := range s.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// Process is the PID of a pod's process that was given an argument, for pods that have their name in the environment variable POD_NAME: the
// lab's processes are this machine's.
func (p Place) Process(pod corev1.Pod, arg string) int {
	p.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		p.Fatal(err)
	}
	for _, file := range files {
		env, _ := os.ReadFile(file) // most are nobody's that we look for, or gone
		line, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
		if bytes.Contains(append([]byte{0}, env...), []byte("\x00POD_NAME="+pod.Name+"\x00")) && bytes.Contains(line, []byte("\x00"+arg+"\x00")) {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			if err != nil {
				p.Fatal(err)
			}
			return pid
		}
	}
	p.Fatalf("no process of pod %s was given %s", pod.Name, arg)
	return 0
}
