package connect

// Info describes a connector: what it was configured to be.
type Info struct {
	Name string `json:"name"`
	// Config has the values of secrets hidden.
	Config map[string]string `json:"config"`
	Tasks  []TaskID          `json:"tasks"`
	// Type is "source" or "sink".
	Type string `json:"type"`
}

// TaskID names one task of a connector.
type TaskID struct {
	Connector string `json:"connector"`
	Task      int    `json:"task"`
}

// ConnectorStatus describes what a connector and its tasks are doing.
type ConnectorStatus struct {
	Name      string       `json:"name"`
	Connector Status       `json:"connector"`
	Tasks     []TaskStatus `json:"tasks"`
	Type      string       `json:"type"`
}

// TaskStatus is the status of one task. Records counts what it has moved since
// it was started, Skipped the bad records that errors.tolerance=all had it pass
// over, and Progress tells how far a source is that knows its size.
type TaskStatus struct {
	ID int `json:"id"`
	Status
	Records  int64     `json:"records"`
	Skipped  int64     `json:"skipped"`
	Progress *Progress `json:"progress,omitempty"`
}

// Progress is how much of a source has been read, in the units that the source
// counts. A Total of 0 is not known; it may grow while the source does.
type Progress struct {
	Done  int64  `json:"done"`
	Total int64  `json:"total"`
	Unit  string `json:"unit"`
}

// Plugin describes a connector class that a worker can run.
type Plugin struct {
	Class   string `json:"class"`
	Type    string `json:"type"`
	Version string `json:"version"`
	Doc     string `json:"doc,omitempty"`
}

// Validation is the outcome of checking a configuration, setting by setting.
type Validation struct {
	Name       string              `json:"name"`
	ErrorCount int                 `json:"error_count"`
	Groups     []string            `json:"groups"`
	Configs    []ValidationSetting `json:"configs"`
}

// ValidationSetting is one setting's definition and value.
type ValidationSetting struct {
	Definition SettingDefinition `json:"definition"`
	Value      SettingValue      `json:"value"`
}

// SecretType is the type of settings whose values are never shown, as Kafka
// Connect names it.
const SecretType = "PASSWORD"

// SettingDefinition describes a setting, in the shape of Kafka Connect.
type SettingDefinition struct {
	Name          string   `json:"name"`
	Type          string   `json:"type"`
	Required      bool     `json:"required"`
	Default       *string  `json:"default_value"`
	Importance    string   `json:"importance"`
	Documentation string   `json:"documentation"`
	Group         string   `json:"group"`
	DisplayName   string   `json:"display_name"`
	Width         string   `json:"width"`
	Dependents    []string `json:"dependents"`
	Order         int      `json:"order"`
}

// SettingValue is what a configuration gives for a setting, and what is wrong
// with it.
type SettingValue struct {
	Name        string   `json:"name"`
	Value       *string  `json:"value"`
	Recommended []string `json:"recommended_values"`
	Errors      []string `json:"errors"`
	Visible     bool     `json:"visible"`
}
