{{- define "penstock.rules.cluster" -}}
- apiGroups: [apiextensions.k8s.io]
  resources: [customresourcedefinitions]
  verbs: [list, watch]
- apiGroups: [gateway.networking.k8s.io]
  resources: [gatewayclasses]
  verbs: [list, watch]
# A GatewayClass that Gateways name has a finalizer.
- apiGroups: [gateway.networking.k8s.io]
  resources: [gatewayclasses]
  verbs: [patch]
- apiGroups: [gateway.networking.k8s.io]
  resources: [gatewayclasses/status]
  verbs: [patch]
- apiGroups: [penstock.dev]
  resources: [clustersets]
  verbs: [list, watch]
- apiGroups: [penstock.dev]
  resources: [clustersets/status]
  verbs: [patch]
- apiGroups: [about.k8s.io]
  resources: [clusterproperties]
  verbs: [list, watch]
- apiGroups: [""]
  resources: [namespaces]
  {{- with .Values.watchNamespaces }}
  resourceNames: {{ include "penstock.namespaces" $ | fromJsonArray | toJson }}
  {{- end }}
  verbs: [list, watch]
{{- if .Values.clusterSet.enabled }}
{{- if .Values.watchNamespaces }}
# The UID of this namespace is the cluster's.
- apiGroups: [""]
  resources: [namespaces]
  resourceNames: [kube-system]
  verbs: [list]
{{- end }}
{{- if .Values.clusterSet.createNamespaces }}
- apiGroups: [""]
  resources: [namespaces]
  verbs: [create]
{{- end }}
{{- end }}
# Tokens with which proxies authenticate.
- apiGroups: [authentication.k8s.io]
  resources: [tokenreviews]
  verbs: [create]
{{- end }}

{{- define "penstock.rules.objects" -}}
- apiGroups: [gateway.networking.k8s.io]
  resources: [gateways, listenersets, httproutes, grpcroutes, tlsroutes, tcproutes, udproutes, referencegrants, backendtlspolicies]
  verbs: [list, watch]
- apiGroups: [gateway.networking.k8s.io]
  resources: [gateways/status, listenersets/status, httproutes/status, grpcroutes/status, tlsroutes/status, tcproutes/status, udproutes/status, backendtlspolicies/status]
  verbs: [patch]
- apiGroups: [multicluster.x-k8s.io]
  resources: [serviceimports]
  verbs: [list, watch]
- apiGroups: [inference.networking.k8s.io]
  resources: [inferencepools]
  verbs: [list, watch]
- apiGroups: [inference.networking.k8s.io]
  resources: [inferencepools/status]
  verbs: [patch]
- apiGroups: [inference.networking.x-k8s.io]
  resources: [inferencepools, inferencepoolimports, inferencemodels, inferencemodelrewrites, inferenceobjectives]
  verbs: [list, watch]
- apiGroups: [inference.networking.x-k8s.io]
  resources: [inferencepools/status, inferencepoolimports/status, inferencemodels/status, inferencemodelrewrites/status, inferenceobjectives/status]
  verbs: [patch]
- apiGroups: [llm-d.ai]
  resources: [inferencemodelrewrites, inferenceobjectives]
  verbs: [list, watch]
- apiGroups: [llm-d.ai]
  resources: [inferencemodelrewrites/status, inferenceobjectives/status]
  verbs: [patch]
- apiGroups: [penstock.dev]
  resources: [modelservers, modeldeployments, modelregistries, poolpolicies, apikeys, accesspolicies, envoyfleets]
  verbs: [list, watch]
- apiGroups: [penstock.dev]
  resources: [modelservers/status, modeldeployments/status, modelregistries/status, poolpolicies/status, accesspolicies/status, envoyfleets/status]
  verbs: [patch]
{{- if .Values.clusterSet.enabled }}
- apiGroups: [inference.networking.x-k8s.io]
  resources: [inferencepoolimports]
  verbs: [create, delete]
- apiGroups: [penstock.dev]
  resources: [poolexports]
  verbs: [list, create, patch, delete]
{{- end }}
- apiGroups: [""]
  resources: [pods]
  verbs: [list, watch]
# Penstock requests Secrets one by one, by the names in Gateways, policies and imports. A rule cannot express this: the names are not
# known here.
- apiGroups: [""]
  resources: [secrets]
  verbs: [list, watch]
- apiGroups: [discovery.k8s.io]
  resources: [endpointslices]
  verbs: [list, watch]
# Fleets. Server-side apply needs patch, and create for new objects. The ValidatingAdmissionPolicy limits writes to objects with
# the label of a fleet.
- apiGroups: [""]
  resources: [services, configmaps, serviceaccounts]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [apps]
  resources: [deployments]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [autoscaling]
  resources: [horizontalpodautoscalers]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [get, list, watch, create, patch, delete]
{{- end }}

{{- /* The namespaces of a namespaced install, as JSON. */ -}}
{{- define "penstock.namespaces" -}}
{{ append .Values.watchNamespaces .Release.Namespace | uniq | sortAlpha | toJson }}
{{- end }}
