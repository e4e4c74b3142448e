package shape

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/manifests/inferenceapi/llmd"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

// ByKind returns the shape of every kind that gets a status, by the name of the kind.
func ByKind() map[string]*Shape {
	return map[string]*Shape{
		store.GatewayClasses.Kind(): GatewayClass(),
		store.Gateways.Kind():       Gateway(),
		store.ListenerSets.Kind():   ListenerSet(),
		store.HTTPRoutes.Kind(): Route(func(r *gatewayv1.HTTPRoute) (*gatewayv1.CommonRouteSpec,
			*gatewayv1.RouteStatus) {
			return &r.Spec.CommonRouteSpec, &r.Status.RouteStatus
		}),
		store.GRPCRoutes.Kind(): Route(func(r *gatewayv1.GRPCRoute) (*gatewayv1.CommonRouteSpec,
			*gatewayv1.RouteStatus) {
			return &r.Spec.CommonRouteSpec, &r.Status.RouteStatus
		}),
		store.TLSRoutes.Kind(): Route(func(r *gatewayv1.TLSRoute) (*gatewayv1.CommonRouteSpec, *gatewayv1.RouteStatus) {
			return &r.Spec.CommonRouteSpec, &r.Status.RouteStatus
		}),
		store.TCPRoutes.Kind(): Route(func(r *gatewayv1.TCPRoute) (*gatewayv1.CommonRouteSpec, *gatewayv1.RouteStatus) {
			return &r.Spec.CommonRouteSpec, &r.Status.RouteStatus
		}),
		store.UDPRoutes.Kind(): Route(func(r *gatewayv1.UDPRoute) (*gatewayv1.CommonRouteSpec, *gatewayv1.RouteStatus) {
			return &r.Spec.CommonRouteSpec, &r.Status.RouteStatus
		}),
		store.BackendTLSPolicies.Kind(): Ancestors(func(p *gatewayv1.BackendTLSPolicy) *gatewayv1.PolicyStatus {
			return &p.Status
		}),
		store.InferencePools.Kind():       InferencePool(),
		store.InferencePoolImports.Kind(): InferencePoolImport(),
		store.InferenceModels.Kind(): Conditions(
			func(m *inferenceapi.InferenceModel) *inferenceapi.InferenceModelStatus { return &m.Status },
			func(s *inferenceapi.InferenceModelStatus) *[]metav1.Condition { return &s.Conditions }),
		store.InferenceModelRewrites.Kind(): Conditions(
			func(m *llmd.InferenceModelRewrite) *llmd.InferenceModelRewriteStatus { return &m.Status },
			func(s *llmd.InferenceModelRewriteStatus) *[]metav1.Condition { return &s.Conditions }),
		store.InferenceObjectives.Kind(): Conditions(
			func(o *llmd.InferenceObjective) *llmd.InferenceObjectiveStatus { return &o.Status },
			func(s *llmd.InferenceObjectiveStatus) *[]metav1.Condition { return &s.Conditions }),
		store.ModelServers.Kind(): Own(
			func(m *v1alpha1.ModelServers) *v1alpha1.ModelServersStatus { return &m.Status },
			func(s *v1alpha1.ModelServersStatus) (*[]metav1.Condition, *int64) {
				return &s.Conditions, &s.ObservedGeneration
			}),
		store.ModelDeployments.Kind(): Own(
			func(d *v1alpha1.ModelDeployment) *v1alpha1.ModelDeploymentStatus { return &d.Status },
			func(s *v1alpha1.ModelDeploymentStatus) (*[]metav1.Condition, *int64) {
				return &s.Conditions, &s.ObservedGeneration
			}),
		store.ModelRegistries.Kind(): Own(
			func(r *v1alpha1.ModelRegistry) *v1alpha1.ModelRegistryStatus { return &r.Status },
			func(s *v1alpha1.ModelRegistryStatus) (*[]metav1.Condition, *int64) {
				return &s.Conditions, &s.ObservedGeneration
			}),
		store.EnvoyFleets.Kind(): Own(
			func(f *v1alpha1.EnvoyFleet) *v1alpha1.EnvoyFleetStatus { return &f.Status },
			func(s *v1alpha1.EnvoyFleetStatus) (*[]metav1.Condition, *int64) {
				return &s.Conditions, &s.ObservedGeneration
			}),
		// Package multicluster/set writes status.members of a ClusterSet, as another field manager.
		store.ClusterSets.Kind(): Own(
			func(c *v1alpha1.ClusterSet) *v1alpha1.ClusterSetStatus { return &c.Status },
			func(s *v1alpha1.ClusterSetStatus) (*[]metav1.Condition, *int64) {
				return &s.Conditions, &s.ObservedGeneration
			}),
		store.AccessPolicies.Kind(): AccessPolicy(),
		store.PoolPolicies.Kind(): Own(
			func(p *v1alpha1.PoolPolicy) *v1alpha1.PoolPolicyStatus { return &p.Status },
			func(s *v1alpha1.PoolPolicyStatus) (*[]metav1.Condition, *int64) {
				return &s.Conditions, &s.ObservedGeneration
			}),
	}
}
