//go:build lab && linux

package lab_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/penstock-project/penstock/conformance/lab/image"
	"github.com/penstock-project/penstock/conformance/lab/labtest"
)

// A pod's containers see their environment, the downward API and files of every kind of volume.
// Init containers run first, and sidecars run alongside.
func TestKubelet_PodSeesEnvironmentAndVolumes(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "lab1")
	_, err := p.CoreV1().ConfigMaps(p.Namespace).Create(t.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings"}, Data: map[string]string{"color": "green"}},
		metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = p.CoreV1().Secrets(p.Namespace).Create(t.Context(),
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "hidden"}, StringData: map[string]string{"word": "sesame"}},
		metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	p.pod(`
metadata: {name: view, labels: {team: blue}}
spec:
  restartPolicy: Never
  initContainers:
  - name: first
    image: shell
    command: [sh, -c, 'echo prepared > /scratch/file']
    volumeMounts: [{name: scratch, mountPath: /scratch}]
  - name: beside
    image: shell
    restartPolicy: Always
    command: [sh, -c, 'echo beside $$$$; trap "exit 0" TERM; while :; do sleep 0.1; done']
  containers:
  - name: main
    image: shell
    command: [sh, -c]
    args:
    - |
      echo "env $COLOR $WORD $POD_IP $NODE $MEMORY $(WORD)"
      echo "init $(cat /data/file) config $(cat /etc/settings/color) secret $(cat /secret/word) labels $(cat /info/labels)"
      echo "token $(cut -c1-2 /var/run/secrets/tokens/vault) own $(cut -c1-2 /var/run/secrets/kubernetes.io/serviceaccount/token)"
      echo "pid $$$$ host $(cat /proc/sys/kernel/hostname) sub $(cat /etc/one)"
      touch /usr/local/mine && echo writable
      (echo x > /etc/settings/color) 2>/dev/null || echo protected
      test -e /scratch || echo private
      test -e /root/.ssh || echo clean
    env:
    - {name: COLOR, valueFrom: {configMapKeyRef: {name: settings, key: color}}}
    - {name: WORD, valueFrom: {secretKeyRef: {name: hidden, key: word}}}
    - {name: POD_IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
    - {name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
    - {name: MEMORY, valueFrom: {resourceFieldRef: {resource: limits.memory, divisor: 1Mi}}}
    resources: {limits: {memory: 64Mi}}
    volumeMounts:
    - {name: scratch, mountPath: /data}
    - {name: settings, mountPath: /etc/settings, readOnly: true}
    - {name: settings, mountPath: /etc/one, subPath: color}
    - {name: hidden, mountPath: /secret}
    - {name: info, mountPath: /info}
    - {name: tokens, mountPath: /var/run/secrets/tokens}
  volumes:
  - {name: scratch, emptyDir: {}}
  - {name: settings, configMap: {name: settings}}
  - {name: hidden, secret: {secretName: hidden}}
  - {name: info, downwardAPI: {items: [{path: labels, fieldRef: {fieldPath: metadata.labels}}]}}
  - {name: tokens, projected: {sources: [{serviceAccountToken: {path: vault, audience: vault, expirationSeconds: 600}}]}}
`)
	p.status("view", "the pod's end", func(s corev1.PodStatus) bool { return s.Phase == corev1.PodSucceeded })
	p.logged("view", "main", "env green sesame 10.", " node 64 sesame",
		`init prepared config green secret sesame labels team="blue"`, "token ey own ey",
		"pid 1 host view sub green", "writable", "protected", "private", "clean")
	p.logged("view", "beside", "beside 1")
}

func TestKubelet_DeadProcessIsRestarted(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "lab1")
	p.pod(`
metadata: {name: mortal}
spec:
  containers:
  - {name: main, image: shell, command: [sh, -c, 'echo alive; sleep 1; echo dying > /dev/termination-log; exit 3']}
`)
	p.status("mortal", "a restart", func(s corev1.PodStatus) bool {
		for _, c := range s.ContainerStatuses {
			if end := c.LastTerminationState.Terminated; c.RestartCount > 0 && end != nil {
				return end.ExitCode == 3 && end.Message == "dying\n" && end.Reason == "Error"
			}
		}
		return false
	})
	log, err := p.PodLog(t.Context(), p.Namespace, "mortal", "main", true)
	if err != nil || !strings.Contains(log, "alive") {
		t.Errorf(`the log of the previous container: %q, %v, want a text with "alive"`, log, err)
	}
}

func TestKubelet_DeletedPodEndsInOrder(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "lab1")
	p.pod(`
metadata: {name: graceful, finalizers: [test.penstock.dev/kept]}
spec:
  terminationGracePeriodSeconds: 20
  containers:
  - name: main
    image: shell
    command: [sh, -c, 'trap "echo signal >> /out/log; cat /out/log; exit 0" TERM; echo up; while :; do sleep 0.1; done']
    volumeMounts: [{name: out, mountPath: /out}]
    lifecycle: {preStop: {exec: {command: [sh, -c, 'echo hook >> /out/log']}}}
  volumes: [{name: out, emptyDir: {}}]
`)
	p.logged("graceful", "main", "up")
	if err := p.CoreV1().Pods(p.Namespace).Delete(t.Context(), "graceful", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	p.status("graceful", "its end", func(s corev1.PodStatus) bool {
		return len(s.ContainerStatuses) == 1 && s.ContainerStatuses[0].State.Terminated != nil &&
			s.ContainerStatuses[0].State.Terminated.ExitCode == 0
	})
	p.logged("graceful", "main", "hook\n", "signal\n")
	if _, err := p.CoreV1().Pods(p.Namespace).Patch(t.Context(), "graceful", "application/merge-patch+json",
		[]byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	p.Until("the pod is gone", func(ctx context.Context) error {
		_, err := p.CoreV1().Pods(p.Namespace).Get(ctx, "graceful", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(err, errors.New("it still exists"))
	})
}

func TestKubelet_ProbesDecideReadinessAndRestart(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "lab1")
	p.pod(`
metadata: {name: probed}
spec:
  containers:
  - name: web
    image: echo-basic
    startupProbe: {tcpSocket: {port: 3000}, periodSeconds: 1}
    readinessProbe: {httpGet: {path: /health, port: 3000}, periodSeconds: 1}
  - name: file
    image: shell
    command: [sh, -c, 'sleep 2; touch /tmp/ready; while :; do sleep 1; done']
    readinessProbe: {exec: {command: [test, -e, /tmp/ready]}, periodSeconds: 1}
`)
	p.pod(`
metadata: {name: sick}
spec:
  containers:
  - name: main
    image: shell
    command: [sh, -c, 'while :; do sleep 1; done']
    livenessProbe: {exec: {command: ["false"]}, periodSeconds: 1, failureThreshold: 1, terminationGracePeriodSeconds: 1}
`)
	p.status("probed", "readiness", labtest.Ready)
	p.status("sick", "a restart", func(s corev1.PodStatus) bool {
		return len(s.ContainerStatuses) == 1 && s.ContainerStatuses[0].RestartCount > 0
	})
}

func TestImage_UnknownNameExplainsLoad(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "lab1")
	p.pod(`
metadata: {name: strange}
spec:
  containers: [{name: main, image: "example.com/strange:v1"}]
`)
	p.status("strange", "the reason", func(s corev1.PodStatus) bool {
		return len(s.ContainerStatuses) == 1 && s.ContainerStatuses[0].State.Waiting != nil &&
			strings.Contains(s.ContainerStatuses[0].State.Waiting.Message, "lab load example.com/strange PROGRAM")
	})
}

// A pod with runAsNonRoot runs as its image's user, or as the user in its spec. Its kernel
// parameters do not affect other pods.
func TestKubelet_PodRunsAsItsUser(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "lab1")
	if err := running.Load(image.Image{Name: "modest", Program: "/bin/sh", User: 4321}); err != nil {
		t.Fatal(err)
	}
	p.pod(`
metadata: {name: modest}
spec:
  restartPolicy: Never
  securityContext: {runAsNonRoot: true, fsGroup: 777, sysctls: [{name: net.ipv4.ip_unprivileged_port_start, value: "80"}]}
  containers:
  - name: image
    image: modest
    command: [sh, -c, 'echo "user $(id -u) groups $(id -G) port $(cat /proc/sys/net/ipv4/ip_unprivileged_port_start)"; touch /data/x && ls -n /data']
    volumeMounts: [{name: data, mountPath: /data}]
  - name: pod
    image: modest
    command: [sh, -c, 'echo "user $(id -u) group $(id -g)"']
    securityContext: {runAsUser: 1234, runAsGroup: 99}
  volumes: [{name: data, emptyDir: {}}]
`)
	p.logged("modest", "image", "user 4321 groups 0 777 port 80", " 4321 777 ")
	p.logged("modest", "pod", "user 1234 group 99")
}
