// Package pod makes the pod template of a model server from deployTemplate.kubernetes of an Engine.
// discovery/engine/deployment passes what a ModelDeployment decides, and discovery/file checks
// Engines. Nothing deploys the pods yet: penstock engines render prints them.
//
// A Template is parsed before values of users enter. Expanding it (template.go) replaces ${path} in
// its texts, as commandline does, and follows the types of a pod: an unknown field, a wrong kind or
// an unknown path is a finding with its place. Then the server's own fields are added (render.go),
// and the result is decoded strictly as a PodTemplateSpec.
//
// Invariants: a value stays within the text that names it, whatever characters it has: the
// structure of a template is the same for all values. A kubelet replaces $(NAME) in command, args
// and env, so $ in a value is doubled there. Texts of the template itself may contain $(NAME).
//
// Tests: go test ./discovery/engine/pod, also with -fuzz FuzzTemplate.
package pod
