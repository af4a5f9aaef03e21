{{- define "braid.name" -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "braid.selector" -}}
app.kubernetes.io/name: braid
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "braid.labels" -}}
{{ include "braid.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "braid.fleetEndpoints" -}}
{{- if and (eq .Values.fleet.endpoints "dns") .Values.tls.secretName -}}
{{- fail "fleet.endpoints: with tls.secretName it is kubernetes: dns finds addresses, and the certificate has names" -}}
{{- else if eq .Values.fleet.endpoints "dns" -}}
dns://{{ include "braid.name" . }}-replicas.{{ .Release.Namespace }}.svc:8001:8000:8002
{{- else if eq .Values.fleet.endpoints "kubernetes" -}}
kubernetes://{{ .Release.Namespace }}/{{ include "braid.name" . }}-replicas
{{- else if .Values.fleet.endpoints -}}
{{- fail "fleet.endpoints is dns, kubernetes or nothing" -}}
{{- end -}}
{{- end -}}

{{- define "braid.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (include "braid.name" .) -}}
{{- end -}}
