{{/* Fails on values that values.schema.json accepts by their form, and that no process accepts. */}}
{{- define "picker.check" -}}
{{- range $i, $range := .Values.allowedCIDRs }}
{{- if not (include "picker.cidr" $range) }}
{{- fail (printf "allowedCIDRs[%d] is %q, which is no range of IP addresses: write a CIDR such as 10.0.0.0/8 or 2001:db8::/32" $i $range) }}
{{- end }}
{{- end }}
{{- end }}

{{/* Nonempty if a text is a range of IPv4 or IPv6 addresses. */}}
{{- define "picker.cidr" -}}
{{- $octet := "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])" }}
{{- $v4 := printf "(%s\\.){3}%s" $octet $octet }}
{{- $v6 := printf "([0-9a-fA-F]{0,4}:){2,8}([0-9a-fA-F]{0,4}|%s)" $v4 }}
{{- $match := regexMatch (printf "^(%s/(3[0-2]|[12]?[0-9])|%s/(12[0-8]|1[01][0-9]|[1-9]?[0-9]))$" $v4 $v6) . }}
{{- if and $match (le (len (regexFindAll "::" . -1)) 1) }}true{{ end }}
{{- end }}
