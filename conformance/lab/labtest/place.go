package labtest

import (
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
