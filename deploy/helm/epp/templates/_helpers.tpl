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
{{- define "epp.elects" -}}
{{- if eq (toString (get .Values.inferenceExtension.flags "ha-enable-leader-election")) "true" }}true{{ end }}
{{- end }}
