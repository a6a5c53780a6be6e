"""What runs the assets: definitions, jobs, schedules, sensors, and the component for a project of your own."""
