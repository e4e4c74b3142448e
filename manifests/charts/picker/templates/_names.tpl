{{- define "picker.name" -}}
{{ .Release.Name }}-epp
{{- end }}

{{- define "picker.pool" -}}
{{ .Values.pool.name | default .Release.Name }}
{{- end }}

{{- define "picker.selector" -}}
app.kubernetes.io/name: penstock-picker
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "picker.metadata" -}}
name: {{ include "picker.name" . }}
namespace: {{ .Release.Namespace }}
labels:
  {{- include "picker.labels" . | nindent 2 }}
{{- end }}

{{- define "picker.labels" -}}
{{ include "picker.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}
