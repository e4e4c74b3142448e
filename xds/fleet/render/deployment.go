package render

import (
	"cmp"
	"fmt"
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/xds/bootstrap"
	"github.com/penstock-project/penstock/xds/identity"
)

const annotationBootstrap = "penstock.dev/bootstrap"

const progressSeconds = int32(180)

// drainMargin is in seconds.
const drainMargin = 30

// Only this user, nonroot in distroless images, may read the token's file.
const user = int64(65532)

func (b *builder) deployment(bootstrapHash string) *appsv1.Deployment {
	deadline := progressSeconds
	none, some := intstr.FromInt32(0), intstr.FromString("25%")
	return &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: b.meta(),
		Spec: appsv1.DeploymentSpec{
			Replicas:                b.replicas(),
			ProgressDeadlineSeconds: &deadline,
			Selector:                &metav1.LabelSelector{MatchLabels: b.selector()},
			Strategy: appsv1.DeploymentStrategy{
				Type:          appsv1.RollingUpdateDeploymentStrategyType,
				RollingUpdate: &appsv1.RollingUpdateDeployment{MaxUnavailable: &none, MaxSurge: &some},
			},
			Template: b.template(bootstrapHash),
		},
	}
}

// An apply without spec.replicas would reset the Deployment to one replica.
func (b *builder) replicas() *int32 {
	n := or(b.Spec.Replicas, 2)
	if a := b.Spec.Autoscaling; a != nil {
		n = min(max(b.Running, minReplicas(a)), a.MaxReplicas)
	}
	return &n
}

func (b *builder) template(bootstrapHash string) corev1.PodTemplateSpec {
	pod := or(b.Spec.Pod, v1alpha1.FleetPod{})
	annotations := map[string]string{}
	maps.Copy(annotations, pod.Annotations)
	annotations[annotationBootstrap] = bootstrapHash
	no, yes, id, grace := false, true, user, int64(b.drainSeconds()+drainMargin)
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: b.labels(pod.Labels), Annotations: b.annotations(annotations)},
		Spec: corev1.PodSpec{
			ServiceAccountName:            b.name,
			AutomountServiceAccountToken:  &no,
			TerminationGracePeriodSeconds: &grace,
			NodeSelector:                  pod.NodeSelector,
			Tolerations:                   pod.Tolerations,
			TopologySpreadConstraints:     b.spread(pod.TopologySpreadConstraints),
			PriorityClassName:             pod.PriorityClassName,
			ImagePullSecrets:              pod.ImagePullSecrets,
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: &yes, RunAsUser: &id, RunAsGroup: &id, FSGroup: &id,
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
				// Listeners on ports below 1024 then need no root and no capabilities.
				Sysctls: []corev1.Sysctl{{Name: "net.ipv4.ip_unprivileged_port_start", Value: "0"}},
			},
			InitContainers: []corev1.Container{b.tools()},
			Containers:     []corev1.Container{b.envoy()},
			Volumes:        b.volumes(),
		},
	}
}

// Envoy's container has no shell, so tools copies the drain program.
func (b *builder) tools() corev1.Container {
	return corev1.Container{
		Name: "tools", Image: b.PenstockImage, Args: []string{"copy", toolDir + "/penstock"},
		SecurityContext: restricted(),
		Resources:       corev1.ResourceRequirements{Requests: quantities("10m", "16Mi"), Limits: memory("128Mi")},
		VolumeMounts:    []corev1.VolumeMount{{Name: "tools", MountPath: toolDir}},
	}
}

func (b *builder) envoy() corev1.Container {
	args := []string{
		"-c", configDir + "/" + bootstrapFile, "--service-node", "$(POD_NAME)", "--service-zone", "$(ZONE)",
		"--log-level", "warning",
	}
	return corev1.Container{
		Name:  "envoy",
		Image: cmp.Or(b.Spec.Image, b.EnvoyImage),
		Args:  append(args, b.bootstrap().Args()...),
		Env: []corev1.EnvVar{
			{Name: "POD_NAME", ValueFrom: field("metadata.name")},
			{Name: "ZONE", ValueFrom: field("metadata.labels['topology.kubernetes.io/zone']")},
		},
		Resources:       b.resources(),
		SecurityContext: restricted(),
		ReadinessProbe: &corev1.Probe{
			ProbeHandler: corev1.ProbeHandler{
				HTTPGet: &corev1.HTTPGetAction{Path: bootstrap.ReadyPath, Port: intstr.FromInt32(ReadyPort)},
			},
			PeriodSeconds: 2, TimeoutSeconds: 1, FailureThreshold: 2,
		},
		Lifecycle: &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{
			toolDir + "/penstock", "drain", "--admin", adminSocket, "--timeout", fmt.Sprintf("%ds", b.drainSeconds()),
		}}}},
		VolumeMounts: []corev1.VolumeMount{
			{Name: "config", MountPath: configDir, ReadOnly: true},
			{Name: "token", MountPath: tokenDir, ReadOnly: true},
			{Name: "run", MountPath: runDir},
			{Name: "tools", MountPath: toolDir, ReadOnly: true},
		},
	}
}

func (b *builder) resources() corev1.ResourceRequirements {
	return or(b.Spec.Resources, corev1.ResourceRequirements{
		Requests: quantities("100m", "128Mi"), Limits: memory("1Gi"),
	})
}

func (b *builder) volumes() []corev1.Volume {
	empty := func(name, size string) corev1.Volume {
		limit := resource.MustParse(size)
		return corev1.Volume{
			Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: &limit}},
		}
	}
	seconds := lifetime
	return []corev1.Volume{
		{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: b.name},
		}}},
		{Name: "token",
			VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{
				ServiceAccountToken: &corev1.ServiceAccountTokenProjection{
					Audience: identity.Audience, ExpirationSeconds: &seconds, Path: "token",
				},
			}}}}},
		empty("run", "16Mi"),
		empty("tools", "256Mi"),
	}
}

func (b *builder) spread(given []corev1.TopologySpreadConstraint) []corev1.TopologySpreadConstraint {
	own := &metav1.LabelSelector{MatchLabels: b.selector()}
	if given == nil {
		for _, key := range []string{corev1.LabelTopologyZone, corev1.LabelHostname} {
			given = append(given, corev1.TopologySpreadConstraint{
				MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: corev1.ScheduleAnyway,
			})
		}
	}
	out := make([]corev1.TopologySpreadConstraint, len(given))
	for i, c := range given {
		c.LabelSelector = cmp.Or(c.LabelSelector, own)
		out[i] = c
	}
	return out
}

func restricted() *corev1.SecurityContext {
	no, yes := false, true
	return &corev1.SecurityContext{
		AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes,
		Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
}

func quantities(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu),
		corev1.ResourceMemory: resource.MustParse(memory)}
}

func memory(limit string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(limit)}
}

func field(path string) *corev1.EnvVarSource {
	return &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: path}}
}
