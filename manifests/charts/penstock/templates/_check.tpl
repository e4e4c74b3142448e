{{/* Fails on values that values.schema.json accepts by their form, and that no process or API server accepts. */}}
{{- define "penstock.check" -}}
{{- range $name := list "allowedCIDRs" "deniedCIDRs" "externalIPs" }}
{{- range $i, $range := index $.Values $name }}
{{- if not (include "penstock.cidr" $range) }}
{{- fail (printf "%s[%d] is %q, which is no range of IP addresses: write a CIDR such as 10.0.0.0/8 or 2001:db8::/32" $name $i $range) }}
{{- end }}
{{- end }}
{{- end }}
{{- range $i, $host := .Values.fetchHosts }}
{{- if and (regexMatch ":[0-9]+$" $host) (not (include "penstock.port" $host)) }}
{{- fail (printf "fetchHosts[%d] is %q: write HOST or HOST:PORT with a port from 1 to 65535, such as sso.example.com:8443" $i $host) }}
{{- end }}
{{- end }}
{{- with .Values.xdsAddress }}
{{- range $address := splitList "," . }}
{{- if not (include "penstock.hostport" (regexReplaceAll ":\\$\\([A-Za-z_][A-Za-z0-9_]*\\)$" $address ":1")) }}
{{- fail (printf "xdsAddress has %q: write HOST:PORT at which proxies reach penstock, with a port from 1 to 65535, such as penstock.example.com:18000; an IPv6 address in brackets" $address) }}
{{- end }}
{{- end }}
{{- end }}
{{- $set := .Values.clusterSet }}
{{- if or $set.address (and $set.enabled $set.port) }}
{{- if not (include "penstock.hostport" $set.address) }}
{{- fail (printf "clusterSet.address is %q: write HOST:PORT at which other clusters reach the Service penstock-members, with a port from 1 to 65535, such as penstock.east.example.com:%d; the name may resolve once the Service has its address. A cluster that imports alone needs none: set clusterSet.port to 0" $set.address (int (default 18443 $set.port))) }}
{{- end }}
{{- end }}
{{- if has (int .Values.kvEvents.port) (list 18000 18001 9002) }}
{{- fail (printf "kvEvents.port is %d, which the Service penstock has for proxies or peers already (18000, 18001 and 9002): write another, such as 5557" (int .Values.kvEvents.port)) }}
{{- end }}
{{- end }}

{{/* Nonempty if a text ends in a port from 1 to 65535. */}}
{{- define "penstock.port" -}}
{{- $port := regexFind "[0-9]+$" . }}
{{- if and $port (le (len $port) 5) (ge (atoi $port) 1) (le (atoi $port) 65535) }}true{{ end }}
{{- end }}

{{/* Nonempty if a text is HOST:PORT. A host may be a variable of the environment, such as $(PENSTOCK_SERVICE_HOST). */}}
{{- define "penstock.hostport" -}}
{{- if and (regexMatch "^([^][:/@, ]+|\\[[0-9a-fA-F:.]+\\]):[0-9]+$" .) (include "penstock.port" .) }}true{{ end }}
{{- end }}

{{/* Nonempty if a text is a range of IPv4 or IPv6 addresses. */}}
{{- define "penstock.cidr" -}}
{{- $octet := "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])" }}
{{- $v4 := printf "(%s\\.){3}%s" $octet $octet }}
{{- $v6 := printf "([0-9a-fA-F]{0,4}:){2,8}([0-9a-fA-F]{0,4}|%s)" $v4 }}
{{- $match := regexMatch (printf "^(%s/(3[0-2]|[12]?[0-9])|%s/(12[0-8]|1[01][0-9]|[1-9]?[0-9]))$" $v4 $v6) . }}
{{- if and $match (le (len (regexFindAll "::" . -1)) 1) }}true{{ end }}
{{- end }}
