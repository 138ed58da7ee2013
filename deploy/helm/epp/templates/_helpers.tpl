{{- define "epp.name" -}}{{ .Release.Name }}-epp{{- end }}
{{- define "epp.selector" -}}
app.kubernetes.io/name: epp
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
{{- define "epp.meta" -}}
name: {{ include "epp.name" . }}
namespace: {{ .Release.Namespace }}
labels:
  {{- include "epp.selector" . | nindent 2 }}
  app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
  app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}
{{- define "epp.image" -}}
{{- with .Values.inferenceExtension.image }}{{ with .hub }}{{ . }}/{{ end }}{{ .name }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end }}
{{- define "epp.group" -}}{{ (split "/" .Values.inferencePool.apiVersion)._0 }}{{- end }}
{{- /* Both spellings of the switch are in use. */ -}}
{{- define "epp.on" -}}{{ if or .enabled .enable }}true{{ end }}{{- end }}
{{- /* Flags as a mapping, or as a list of name and value, which older values files have: JSON of a mapping. */ -}}
{{- define "epp.flags" -}}
{{- $flags := .Values.inferenceExtension.flags }}
{{- if kindIs "slice" $flags }}
{{- $found := dict }}
{{- range $flags }}{{ $_ := set $found .name .value }}{{ end }}
{{- $flags = $found }}
{{- end }}
{{- toJson ($flags | default dict) }}
{{- end }}
{{- define "epp.elects" -}}
{{- if eq (toString (get (include "epp.flags" . | fromJson) "ha-enable-leader-election")) "true" }}true{{ end }}
{{- end }}
{{- define "epp.secret" -}}
{{- .Values.inferenceExtension.monitoring.prometheus.auth.secretName | default (printf "%s-metrics-reader" (include "epp.name" .)) }}
{{- end }}
{{- define "epp.asks" -}}
{{- with .Values.inferenceExtension.monitoring.prometheus }}{{ include "epp.on" (.auth | default dict) }}{{ end }}
{{- end }}
