{{- define "external.labels" -}}
app.kubernetes.io/name: penstock-external
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
{{- end }}

{{- define "external.selector" -}}
app.kubernetes.io/name: penstock-external
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "external.metadata" -}}
name: {{ .root.Release.Name }}-{{ .component }}
namespace: {{ .root.Release.Namespace }}
labels:
  {{- include "external.labels" . | nindent 2 }}
{{- end }}

{{/* The image of a component. One of ours must be of the chart's minor release: programs that exchange token IDs are tested together. */}}
{{- define "external.image" -}}
{{- $image := .values.image }}
{{- if not $image }}
{{- $image = .root.Values.image }}
{{- end }}
{{- $parts := regexFindAll "^.*/penstock(-external)?:v?[0-9]+\\.[0-9]+" $image 1 }}
{{- if $parts }}
{{- $have := regexFind "[0-9]+\\.[0-9]+$" (first $parts) }}
{{- $want := regexFind "^[0-9]+\\.[0-9]+" .root.Chart.AppVersion }}
{{- if ne $have $want }}
{{- fail (printf "the image of %s, %s, is of release %s and this chart of %s: use an image of %s, or the chart of %s" .component $image $have $want $want $have) }}
{{- end }}
{{- end }}
{{- $image }}
{{- end }}

{{/* Whether a component runs a program that replaces ours, which takes none of our arguments. */}}
{{- define "external.replaced" -}}
{{- if and .values.image (not (regexMatch "(^|/)penstock(-external)?[:@]" .values.image)) }}true{{ end }}
{{- end }}

{{- define "external.url" -}}
http://{{ .root.Release.Name }}-{{ .component }}.{{ .root.Release.Namespace }}.svc:8080
{{- end }}

{{- define "external.workers" -}}
{{ .Release.Name }}-workers.{{ .Release.Namespace }}.svc:{{ .Values.workers.port }}
{{- end }}

{{/* The labels of the workers: the chart's own pods, or pods that it does not run. */}}
{{- define "external.workerlabels" -}}
{{- if .Values.workers.enabled }}
{{- include "external.selector" (dict "root" . "component" "workers") }}
{{- else if .Values.workers.selector }}
{{- toYaml .Values.workers.selector }}
{{- else }}
{{- fail "workers.enabled is false and workers.selector empty: write the labels of your workers' pods into workers.selector" }}
{{- end }}
{{- end }}

{{/* A list of two NetworkPolicyPeers: Penstock's pods, and the pods of the chart picker in this namespace. */}}
{{- define "external.penstock" -}}
- podSelector: {matchLabels: {app.kubernetes.io/name: penstock}}
  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: {{ .Values.networkPolicy.penstockNamespace }}}}
- podSelector: {matchLabels: {app.kubernetes.io/name: penstock-picker}}
{{- end }}

{{/* The Deployment of a component. arguments: the program's arguments. port: its port. */}}
{{- define "external.deployment" -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  {{- include "external.metadata" . | nindent 2 }}
spec:
  replicas: {{ .values.replicas | default 1 }}
  strategy:
    rollingUpdate: {maxUnavailable: 0, maxSurge: 1}
  selector:
    matchLabels:
      {{- include "external.selector" . | nindent 6 }}
  template:
    metadata:
      labels:
        {{- include "external.labels" . | nindent 8 }}
    spec:
      automountServiceAccountToken: false
      {{- with .root.Values.imagePullSecrets }}
      imagePullSecrets:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .root.Values.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .root.Values.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      topologySpreadConstraints:
      - maxSkew: 1
        topologyKey: kubernetes.io/hostname
        whenUnsatisfiable: ScheduleAnyway
        labelSelector:
          matchLabels:
            {{- include "external.selector" . | nindent 12 }}
      securityContext:
        {{- if include "external.replaced" . }}
        {{- toYaml .values.podSecurityContext | nindent 8 }}
        {{- else }}
        runAsNonRoot: true
        runAsUser: 65532
        runAsGroup: 65532
        seccompProfile: {type: RuntimeDefault}
        {{- end }}
      containers:
      - name: {{ .component }}
        image: {{ include "external.image" . }}
        {{- with .values.command }}
        command:
          {{- toYaml . | nindent 10 }}
        {{- end }}
        {{- $arguments := concat (ternary (list) .arguments (eq (include "external.replaced" .) "true")) .values.args }}
        {{- with $arguments }}
        args:
          {{- toYaml . | nindent 10 }}
        {{- end }}
        env:
        - name: POD_NAME
          valueFrom: {fieldRef: {fieldPath: metadata.name}}
        - name: GOMEMLIMIT # bytes; without a limit, the kubelet sets the memory of its node
          valueFrom: {resourceFieldRef: {resource: limits.memory}}
        {{- if and (eq .component "processor") .root.Values.router.enabled }}
        - name: ROUTER_URL
          value: {{ include "external.url" (dict "root" .root "component" "router") }}
        {{- end }}
        {{- if and (has .component (list "processor" "workers")) .root.Values.tokens.enabled }}
        - name: TOKENS_URL
          value: {{ include "external.url" (dict "root" .root "component" "tokens") }}
        {{- end }}
        {{- if eq .component "router" }}
        - name: WORKERS
          value: {{ include "external.workers" .root }}
        {{- end }}
        {{- with .values.env }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
        ports:
        - {name: http, containerPort: {{ .port }}}
        readinessProbe:
          httpGet: {path: {{ .values.probe }}, port: http}
          periodSeconds: 2
        livenessProbe:
          httpGet: {path: {{ .values.probe }}, port: http}
          initialDelaySeconds: 10
        securityContext:
          {{- if include "external.replaced" . }}
          {{- toYaml .values.securityContext | nindent 10 }}
          {{- else }}
          allowPrivilegeEscalation: false
          readOnlyRootFilesystem: true
          capabilities: {drop: [ALL]}
          {{- end }}
        resources:
          {{- toYaml .values.resources | nindent 10 }}
{{- end }}

{{- define "external.service" -}}
apiVersion: v1
kind: Service
metadata:
  {{- include "external.metadata" . | nindent 2 }}
spec:
  selector:
    {{- include "external.selector" . | nindent 4 }}
  ports:
  - {name: http, port: 8080, targetPort: http}
{{- end }}

{{/* The NetworkPolicy of a component. from: lists of peers. */}}
{{- define "external.networkpolicy" -}}
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  {{- include "external.metadata" . | nindent 2 }}
spec:
  podSelector:
    matchLabels:
      {{- include "external.selector" . | nindent 6 }}
  policyTypes: [Ingress]
  ingress:
  - ports:
    - {port: http}
    from:
    {{- toYaml (concat .from .root.Values.networkPolicy.metricsFrom) | nindent 4 }}
{{- end }}
