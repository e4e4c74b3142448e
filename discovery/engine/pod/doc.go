// Package pod makes the pod template of a model server from deployTemplate.kubernetes of an Engine.
// discovery/engine/deployment passes the values of a ModelDeployment, and discovery/file checks
// Engines. Penstock does not deploy the pods yet: penstock engines render prints them.
//
// A Template is parsed before users' values are inserted. Expanding it (template.go) replaces
// ${path} in its texts, as package commandline does, and compares it with the Go types of a pod. An
// unknown field, a value of a wrong type or an unknown path becomes a finding with its field. Then
// the server's own fields are added (render.go), and the result is decoded strictly as a
// PodTemplateSpec.
//
// Invariants: a value changes only the text that contains its ${path}, whatever characters the
// value has. So the structure of the result is the same for all values. The kubelet replaces
// $(NAME) in command, args and env, so each $ of a value is doubled in these fields. Texts of the
// template itself may contain $(NAME).
//
// Tests: go test ./discovery/engine/pod, also with -fuzz FuzzTemplate.
package pod
