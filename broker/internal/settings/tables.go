package settings

type check func(value) string

type value struct{}

type tables struct{}
