package gatewayapi

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/translator/model"
)

func TestClients_EachSettingReachesListeners(t *testing.T) {
	seconds, streams, hops := int32(20), int32(100), int32(2)
	got := edge(&v1alpha1.EnvoyFleetSpec{
		Resources: &corev1.ResourceRequirements{
			Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("4Gi")},
		},
		Clients: &v1alpha1.FleetClients{
			RequestTimeoutSeconds: &seconds, HTTP2Streams: &streams, TrustedHops: &hops,
			EscapedSlashes: v1alpha1.KeepEscapes, HeadersWithUnderscores: v1alpha1.DropUnderscores,
			RequestIDs: v1alpha1.KeepRequestIDs, ProxyProtocol: v1alpha1.ProxyProtocolRequired,
			HTTP10: v1alpha1.RejectHTTP10,
		},
	})
	want := model.Edge{
		RequestTimeout: 20 * time.Second, Streams: 100, TrustedHops: 2, Uploads: model.UploadsOf(4 << 30),
		EscapedSlashes: v1alpha1.KeepEscapes, Underscores: v1alpha1.DropUnderscores,
		RequestIDs: v1alpha1.KeepRequestIDs, ProxyProtocol: v1alpha1.ProxyProtocolRequired,
		HTTP10: v1alpha1.RejectHTTP10,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
